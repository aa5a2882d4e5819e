import { cartMass, force, gravity, halfLength, poleMass, secondsPerStep } from "./cart-pole.ts";

/** Many poles on carts, each simulated as by `CartPole`; every array has an element for each pole. */
export class CartPoles {
  readonly position: Float64Array;
  readonly velocity: Float64Array;
  readonly angle: Float64Array;
  readonly angularVelocity: Float64Array;

  constructor(size: number) {
    this.position = new Float64Array(size);
    this.velocity = new Float64Array(size);
    this.angle = new Float64Array(size);
    this.angularVelocity = new Float64Array(size);
  }

  restart(i: number, random: () => number): void {
    this.position[i] = 0.1 * random() - 0.05;
    this.velocity[i] = 0.1 * random() - 0.05;
    this.angle[i] = 0.1 * random() - 0.05;
    this.angularVelocity[i] = 0.1 * random() - 0.05;
  }

  push(i: number, right: boolean): void {
    const mass = cartMass + poleMass;
    const position = this.position[i] ?? 0;
    const velocity = this.velocity[i] ?? 0;
    const angle = this.angle[i] ?? 0;
    const angularVelocity = this.angularVelocity[i] ?? 0;
    const sin = Math.sin(angle);
    const cos = Math.cos(angle);
    const squared = angularVelocity * angularVelocity;
    const pushed = ((right ? force : -force) + poleMass * halfLength * squared * sin) / mass;
    const angularAcceleration =
      (gravity * sin - cos * pushed) / (halfLength * (4 / 3 - (poleMass * cos * cos) / mass));
    const acceleration = pushed - (poleMass * halfLength * angularAcceleration * cos) / mass;
    this.position[i] = position + secondsPerStep * velocity;
    this.velocity[i] = velocity + secondsPerStep * acceleration;
    this.angle[i] = angle + secondsPerStep * angularVelocity;
    this.angularVelocity[i] = angularVelocity + secondsPerStep * angularAcceleration;
  }

  hasFallen(i: number): boolean {
    return (
      Math.abs(this.position[i] ?? 0) > 2.4 || Math.abs(this.angle[i] ?? 0) > (12 / 180) * Math.PI
    );
  }
}
