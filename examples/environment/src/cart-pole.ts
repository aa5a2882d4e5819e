export const gravity = 9.8;
export const cartMass = 1;
export const poleMass = 0.1;
export const halfLength = 0.5;
export const force = 10;
export const secondsPerStep = 0.02;

/** A pole on a cart that is pushed left or right (Barto, Sutton & Anderson 1983). */
export class CartPole {
  /** In metres; the velocity in metres per second. */
  position = 0;
  velocity = 0;
  /** From upright, in radians; the velocity in radians per second. */
  angle = 0;
  angularVelocity = 0;

  /** Restarts with four small random numbers. */
  restart(random: () => number): void {
    const small = () => 0.1 * random() - 0.05;
    [this.position, this.velocity, this.angle, this.angularVelocity] = [
      small(),
      small(),
      small(),
      small(),
    ];
  }

  push(right: boolean): void {
    const mass = cartMass + poleMass;
    const sin = Math.sin(this.angle);
    const cos = Math.cos(this.angle);
    const squared = this.angularVelocity * this.angularVelocity;
    const pushed = ((right ? force : -force) + poleMass * halfLength * squared * sin) / mass;
    const angularAcceleration =
      (gravity * sin - cos * pushed) / (halfLength * (4 / 3 - (poleMass * cos * cos) / mass));
    const acceleration = pushed - (poleMass * halfLength * angularAcceleration * cos) / mass;
    this.position += secondsPerStep * this.velocity;
    this.velocity += secondsPerStep * acceleration;
    this.angle += secondsPerStep * this.angularVelocity;
    this.angularVelocity += secondsPerStep * angularAcceleration;
  }

  hasFallen(): boolean {
    return Math.abs(this.position) > 2.4 || Math.abs(this.angle) > (12 / 180) * Math.PI;
  }
}
