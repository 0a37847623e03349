"use strict";
// The rules of choice: what Front.select and preferences.from_aspiration compute.

function shares(weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

function heights(values, preference, reference) {
  return values.map((value, s) => preference[s] * (value - reference[s]));
}

/** Index of the run with the smallest max_s r_s (phi_s - z_s) among those that ended well; -1 where none did. */
function nearest(runs, preference, reference) {
  let found = -1;
  let least = Infinity;
  runs.forEach((run, index) => {
    const height = run.failed ? Infinity : Math.max(...heights(run.values, preference, reference));
    if (height < least) [found, least] = [index, height];
  });
  return found;
}

/** r proportional to 1/(levels - z); throws what to tell where a level is not above z. */
function fromAspiration(levels, reference, names) {
  levels.forEach((level, s) => {
    if (!(level > reference[s]) || !Number.isFinite(level)) {
      throw new Error(`The level of ${names[s]} must be above ${number(reference[s])}.`);
    }
  });
  return shares(levels.map((level, s) => 1 / (level - reference[s])));
}

/** Choices made so far: stepping back and forward; a new choice forgets those ahead. */
class Choices {
  constructor(first) {
    this.made = [first];
    this.at = 0;
    this.last = { input: null, time: 0 };
  }

  /** A choice made through an input (or null); those that follow each other fast, as keys do, are one. */
  add(choice, input, time) {
    const same = input !== null && input === this.last.input && time - this.last.time < 1000 && this.at > 0;
    this.made = [...this.made.slice(0, same ? this.at : this.at + 1), choice];
    this.at = this.made.length - 1;
    this.last = { input, time };
  }

  move(by) {
    this.at = Math.min(Math.max(this.at + by, 0), this.made.length - 1);
    this.last = { input: null, time: 0 };
    return this.made[this.at];
  }
}
