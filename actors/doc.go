// Package actors holds the roles of a Troupe cluster: master, sessions, worker and directory, and the steps
// that they run together.
//
// A Task is one task of the cluster in this process: its devices, each with an executor, the steps that run on
// them, and three actors that other tasks reach by name. The worker ("worker") runs partitions that masters
// send it. The master ("master") holds the sessions that clients opened here. The directory ("directory") keeps
// its shard of the homes of named resources. Each session is an actor too, and only it changes the session's
// graph and plans. What a step reads (the plans that are built, the tensors that arrive) is published and read
// without a message, so that a step which stays on one task sends none.
//
// Each actor's protocol is a file of package wire, in a process and between processes alike. What both ends
// share in memory lies beside the message. Actors of different tasks exchange messages over the links of
// package remote/internal/link. A message may be lost with its link: every wait for an answer ends when the link to the
// peer breaks, or when its time is over.
package actors
