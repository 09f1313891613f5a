// Lets the programs beside this file import packages from where `make clients` installs them.
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

const here = new URL(".", import.meta.url).href;
const packages = pathToFileURL(`${process.env.PACKAGES}/`).href;

registerHooks({
  resolve(name, context, next) {
    const ours = context.parentURL?.startsWith(here) && /^[a-z@]/.test(name) && !name.startsWith("node:");
    return next(name, ours ? { ...context, parentURL: packages } : context);
  },
});
