/**
 * The game itself: plain state and rules, to be replaced by your own. It does not depend on
 * agents, tensors or a network; world.ts is its interface for agents.
 */

export interface Position {
  x: number;
  y: number;
}

export interface Player {
  readonly position: Position;
  coins: number;
  /** True if the player reached a coin in the last tick. */
  found: boolean;
}

export interface GameOptions {
  /** The board has size × size fields. */
  readonly size: number;
  /** Number of coins that a player needs to win. */
  readonly goal: number;
  /** A whole number from `min` to `max`, both included. */
  readonly random: (min: number, max: number) => number;
}

export const moves = [
  { x: 0, y: 0 },
  { x: 0, y: -1 },
  { x: 1, y: 0 },
  { x: 0, y: 1 },
  { x: -1, y: 0 },
] as const;

export interface Game {
  readonly coin: Position;
  add(): Player;
  remove(player: Player): void;
  /** Moves all players and the coin to random fields and takes the players' coins. */
  restart(): void;
  /** Moves each player by its index into `moves`; a player without an index stays. */
  tick(chosen: ReadonlyMap<Player, number>): void;
  winner(): Player | undefined;
}

export function createGame({ size, goal, random }: GameOptions): Game {
  const players = new Set<Player>();
  const anywhere = (): Position => ({ x: random(0, size - 1), y: random(0, size - 1) });
  const within = (value: number): number => Math.min(size - 1, Math.max(0, value));
  const coin = anywhere();

  return {
    coin,
    add() {
      const player = { position: anywhere(), coins: 0, found: false };
      players.add(player);
      return player;
    },
    remove: (player) => void players.delete(player),
    restart() {
      Object.assign(coin, anywhere());
      for (const player of players) {
        Object.assign(player.position, anywhere());
        player.coins = 0;
        player.found = false;
      }
    },
    tick(chosen) {
      for (const player of players) {
        const { x, y } = moves[chosen.get(player) ?? 0] ?? moves[0];
        player.position.x = within(player.position.x + x);
        player.position.y = within(player.position.y + y);
        player.found = player.position.x === coin.x && player.position.y === coin.y;
        if (!player.found) {
          continue;
        }
        player.coins += 1;
        Object.assign(coin, anywhere());
      }
    },
    winner: () => [...players].find(({ coins }) => coins >= goal),
  };
}
