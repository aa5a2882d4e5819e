export { CartPole } from "./cart-pole.ts";
export { CartPoles } from "./cart-poles.ts";
