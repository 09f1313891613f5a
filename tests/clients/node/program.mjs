// What every client program does: read jobs, run them all at once, and print what each of them saw.
//
// The gateway's address and key are in the environment; jobs come as one JSON list on standard input, and one JSON
// object per job goes to standard output. A job names a row (a way to use the client), a scenario, a model, a prompt.
import { text } from "node:stream/consumers";

export const URL = process.env.GATEWAY_URL;
export const KEY = process.env.GATEWAY_KEY;
export const DECLARED = { get_weather: "The weather in a city.", get_time: "The time of day in a city." };
export const CITY = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

// The tools of every client, and what was asked of them.
export function tools() {
  const answers = { get_weather: "sunny", get_time: "noon" };
  const ran = [];
  return {
    ran,
    run(name, { city }) {
      ran.push([name, city]);
      return `${answers[name]} in ${city}`;
    },
  };
}

// What the client made of the answers.
const NOTHING = { text: "", thinking: "", ran: [], value: null, more: {} };
export const seen = (found) => ({ ...NOTHING, ...found });

export async function main(rows) {
  const jobs = JSON.parse(await text(process.stdin));
  await Promise.all(
    jobs.map(async (job) => {
      const told = { row: job.row, scenario: job.scenario };
      try {
        told.seen = await rows[job.row][job.scenario](job);
      } catch (error) {
        // The edge of the program: the test shows it.
        told.error = `${error.stack ?? error}\n${error.responseBody ?? ""}`;
      }
      process.stdout.write(`${JSON.stringify(told)}\n`);
    }),
  );
}
