// The types of the node's answers under short names.
import type { components as Members } from "./types/members";
import type { components as Operators } from "./types/operators";

/** Of the interface. */
export type M = Members["schemas"];
/** Of the operators' port. */
export type O = Operators["schemas"];

export type Channel = M["Channel"];
export type Status = M["Status"];
export type Message = M["StoredMessage"];
