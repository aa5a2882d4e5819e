const lines = [
  [0, 1, 2],
  [3, 4, 5],
  [6, 7, 8],
  [0, 3, 6],
  [1, 4, 7],
  [2, 5, 8],
  [0, 4, 8],
  [2, 4, 6],
] as const;

/** A board of three by three fields. Players are numbers above 0. */
export class Board {
  /** The player on each field, row by row; 0 for a free field. */
  readonly fields = new Int8Array(9);

  clear(): void {
    this.fields.fill(0);
  }

  isFree(field: number): boolean {
    return this.fields[field] === 0;
  }

  take(field: number, player: number): void {
    this.fields[field] = player;
  }

  isFull(): boolean {
    return this.fields.every((player) => player !== 0);
  }

  /** Returns the player with three in a line, or 0. */
  winner(): number {
    const won = lines.find(([a, b, c]) => {
      const player = this.fields[a];
      return player !== 0 && player === this.fields[b] && player === this.fields[c];
    });
    return won === undefined ? 0 : (this.fields[won[0]] ?? 0);
  }
}
