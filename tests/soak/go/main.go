// SPDX-License-Identifier: Apache-2.0

// Command agents plays one sequence of each match, until its standard input has a line or ends, and
// prints the events of tests/soak/src/matchmaking/events.ts.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	service  = "matchmaker.v1.FrontendService"
	waiting  = 1
	matched  = 2
	failed   = 7
	running  = 1
	patience = 7 * time.Second
	stepTime = 25 * time.Millisecond
	retry    = 250 * time.Millisecond
	callTime = 5 * time.Second
)

// A suspended peer answers no ping.
var options = []grpc.DialOption{
	grpc.WithTransportCredentials(insecure.NewCredentials()),
	grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
}

type event struct {
	At      int64  `json:"at"`
	Agent   string `json:"agent"`
	Turn    int    `json:"turn"`
	Is      string `json:"is"`
	Address string `json:"address,omitempty"`
	Why     string `json:"why,omitempty"`
}

var printing sync.Mutex

func tell(e event) {
	e.At = time.Now().UnixMilli()
	line, _ := json.Marshal(e)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

// message is a message without generated code: its fields are set and read by name.
type message struct{ *dynamicpb.Message }

var files *protoregistry.Files

func newMessage(name string) message {
	found, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	return message{dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))}
}

func (m message) field(name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (m message) setText(name, text string) message {
	m.Set(m.field(name), protoreflect.ValueOfString(text))
	return m
}

func (m message) child(name string) message {
	return message{m.Mutable(m.field(name)).Message().(*dynamicpb.Message)}
}

func (m message) get(name string) protoreflect.Value { return m.Get(m.field(name)) }

type matchmakers struct {
	channels []*grpc.ClientConn
	token    string
}

func (m *matchmakers) with(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+m.token)
}

func (m *matchmakers) at(at int) *grpc.ClientConn { return m.channels[at%len(m.channels)] }

type agent struct {
	name        string
	at          int
	matchmakers *matchmakers
	ending      context.Context
}

func (a *agent) live() {
	for turn := 1; a.ending.Err() == nil; turn++ {
		tell(event{Agent: a.name, Turn: turn, Is: "asked"})
		a.takeTurn(turn)
	}
}

func (a *agent) try(method, id, secret string) bool {
	ctx, cancel := context.WithTimeout(a.matchmakers.with(context.Background()), callTime)
	defer cancel()
	request := newMessage("matchmaker.v1."+method+"Request").setText("ticket_id", id).setText("ticket_secret", secret)
	response := newMessage("matchmaker.v1." + method + "Response")
	err := a.matchmakers.at(a.at).Invoke(ctx, "/"+service+"/"+method, request.Message, response.Message)
	if err == nil {
		return true
	}
	a.at++
	time.Sleep(retry)
	return false
}

func (a *agent) takeTurn(turn int) {
	id, secret := rand.Text(), rand.Text()
	over, finish := context.WithCancel(a.ending)
	defer finish()
	played := make(chan struct{})
	var mine *message
	for over.Err() == nil && mine == nil {
		if !a.try("CreateTicket", id, secret) {
			continue
		}
		watch, err := a.watch(over, id, secret)
		for err == nil {
			response := newMessage("matchmaker.v1.WatchTicketResponse")
			if err = watch.RecvMsg(response.Message); err != nil {
				break
			}
			ticket := response.child("ticket")
			assignment := ticket.child("assignment")
			state := int(ticket.get("state").Enum())
			isAssigned := assignment.get("world_name").String() != ""
			switch {
			case mine == nil && isAssigned:
				mine = &assignment
				tell(event{Agent: a.name, Turn: turn, Is: "assigned", Address: assignment.get("address").String()})
				go func() {
					a.play(turn, id, secret, assignment)
					finish()
					close(played)
				}()
			case mine == nil && state == failed:
				tell(event{Agent: a.name, Turn: turn, Is: "failed", Why: ticket.child("error").get("message").String()})
				return
			case mine != nil && over.Err() == nil && hasMoved(state, isAssigned, assignment, *mine):
				tell(event{Agent: a.name, Turn: turn, Is: "moved", Address: mine.get("address").String(), Why: fmt.Sprint(state)})
			}
		}
		if mine == nil {
			a.at++
			time.Sleep(retry)
		}
	}
	if mine != nil {
		<-played
		return
	}
	a.try("CancelTicket", id, secret)
	tell(event{Agent: a.name, Turn: turn, Is: "given-up"})
}

func (a *agent) watch(ctx context.Context, id, secret string) (grpc.ClientStream, error) {
	stream, err := a.matchmakers.at(a.at).NewStream(
		a.matchmakers.with(ctx), &grpc.StreamDesc{ServerStreams: true}, "/"+service+"/WatchTicket")
	if err != nil {
		return nil, err
	}
	request := newMessage("matchmaker.v1.WatchTicketRequest").setText("ticket_id", id).setText("ticket_secret", secret)
	if err := stream.SendMsg(request.Message); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

func hasMoved(state int, isAssigned bool, assignment, mine message) bool {
	if isAssigned {
		return assignment.get("join_token").String() != mine.get("join_token").String()
	}
	return state == waiting || state == matched
}

var errAlone = errors.New("the others did not come in time")

// play plays a sequence, and reports its fate.
func (a *agent) play(turn int, id, secret string, assignment message) {
	address := assignment.get("address").String()
	err := a.playSequence(turn, id, assignment)
	if err == nil {
		tell(event{Agent: a.name, Turn: turn, Is: "finished", Address: address})
		return
	}
	fate := "lost"
	if errors.Is(err, errAlone) {
		fate = "alone"
		if a.ending.Err() != nil {
			fate = "given-up"
		}
	}
	tell(event{Agent: a.name, Turn: turn, Is: fate, Address: address, Why: err.Error()})
	a.try("CancelTicket", id, secret)
}

func (a *agent) playSequence(turn int, id string, assignment message) error {
	address := assignment.get("address").String()
	channel, err := grpc.NewClient(strings.TrimPrefix(address, "http://"), options...)
	if err != nil {
		return err
	}
	defer channel.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+assignment.get("join_token").String())
	stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/dm_env_rpc.v1.Environment/Process")
	if err != nil {
		return err
	}
	var isLate bool
	late := time.AfterFunc(patience, func() {
		isLate = true
		channel.Close()
	})
	join := newMessage("dm_env_rpc.v1.EnvironmentRequest")
	body := join.child("join_world").setText("world_name", assignment.get("world_name").String())
	setTicket(body, id)
	joined, err := send(stream, join)
	if err == nil {
		_, err = send(stream, newStep(nil))
	}
	if !late.Stop() && isLate {
		return errAlone
	}
	if err != nil {
		return err
	}
	tell(event{Agent: a.name, Turn: turn, Is: "began", Address: address})
	specs := joined.child("join_world").child("specs").get("actions").Map()
	var move protoreflect.MapKey
	specs.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		move = key
		return false
	})
	for {
		time.Sleep(stepTime)
		stepped, err := send(stream, newStep(&move))
		if err != nil {
			return err
		}
		if stepped.child("step").get("state").Enum() != running {
			return stream.CloseSend()
		}
	}
}

func setTicket(join message, id string) {
	settings := join.Mutable(join.field("settings")).Map()
	tensor := settings.NewValue()
	text := message{tensor.Message().(*dynamicpb.Message)}.child("strings")
	text.Mutable(text.field("array")).List().Append(protoreflect.ValueOfString(id))
	settings.Set(protoreflect.ValueOfString("ticket").MapKey(), tensor)
}

// newStep returns a step with the action of a key, or without an action.
func newStep(move *protoreflect.MapKey) message {
	request := newMessage("dm_env_rpc.v1.EnvironmentRequest")
	step := request.child("step")
	if move == nil {
		return request
	}
	actions := step.Mutable(step.field("actions")).Map()
	tensor := actions.NewValue()
	ints := message{tensor.Message().(*dynamicpb.Message)}.child("int32s")
	ints.Mutable(ints.field("array")).List().Append(protoreflect.ValueOfInt32(1))
	actions.Set(*move, tensor)
	return request
}

func send(stream grpc.ClientStream, request message) (message, error) {
	response := newMessage("dm_env_rpc.v1.EnvironmentResponse")
	if err := stream.SendMsg(request.Message); err != nil {
		return response, err
	}
	if err := stream.RecvMsg(response.Message); err != nil {
		return response, err
	}
	if response.Has(response.field("error")) {
		return response, errors.New(response.child("error").get("message").String())
	}
	return response, nil
}

type addresses []string

func (a *addresses) String() string { return strings.Join(*a, ",") }

func (a *addresses) Set(address string) error {
	*a = append(*a, strings.TrimPrefix(address, "http://"))
	return nil
}

func main() {
	var hosts addresses
	flag.Var(&hosts, "matchmaker", "address of a matchmaker; repeat it")
	agents := flag.Int("agents", 1, "number of agents")
	name := flag.String("name", "go", "name of the agents")
	token := flag.String("token", "", "token for the matchmakers")
	descriptors := flag.String("descriptors", "", "file with a FileDescriptorSet")
	flag.Parse()
	if err := readDescriptors(*descriptors); err != nil {
		panic(err)
	}
	pool := &matchmakers{token: *token}
	for _, host := range hosts {
		channel, err := grpc.NewClient(host, options...)
		if err != nil {
			panic(err)
		}
		pool.channels = append(pool.channels, channel)
	}
	ending, end := context.WithCancel(context.Background())
	var lives sync.WaitGroup
	for i := range *agents {
		lives.Go((&agent{fmt.Sprintf("%s-%d", *name, i), i, pool, ending}).live)
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	end()
	lives.Wait()
}

func readDescriptors(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil {
		return err
	}
	files, err = protodesc.NewFiles(set)
	return err
}
