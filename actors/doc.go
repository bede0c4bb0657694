// Package actors holds the roles of a Troupe cluster: master, sessions, worker and directory, and the steps
// that they run together.
//
// A Task is one task of the cluster in this process: its devices, each with an executor, the steps that run on
// them, and three actors that other tasks address by name. The worker ("worker") runs the partitions that masters
// send it. The master ("master") holds the sessions that clients opened here. The directory ("directory") keeps
// its shard of the homes of named resources. Each session is an actor too, and only that actor changes the session's
// graph and plans. Whatever a step reads (finished plans, arrived tensors) is published and read without a
// message, so a step that stays on one task sends none.
//
// Each actor's protocol is a file of package wire, both within a process and between processes. Values that both ends
// share in memory are passed beside the message. Actors of different tasks exchange messages over the links of
// package remote/internal/link. A message may be lost with its link: every wait for an answer ends when the link to the
// peer breaks, or at its deadline.
package actors
