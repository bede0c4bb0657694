// Package actors is who does what in a Troupe cluster.
//
// A Task is one task of the cluster in this process: its devices with an executor each, the steps that run on them, and
// three actors that other tasks can reach by name: the Worker ("worker"), which runs partitions
// that masters send it, the Master ("master"), which holds the sessions that clients opened here,
// and the Directory ("directory"), which keeps its share of where named resources live. Each
// session is an actor too: it alone changes the session's graph and plans. What a step reads (the
// plans that are built, the tensors that arrive) is published for reading without a message, so
// that a step which stays on one task costs none.
//
// Each actor's protocol is a file of package wire, in a process and between processes alike; what both ends share in
// memory lies beside the message. Actors of different tasks exchange messages over the links of package remote/internal/link. A
// message may be lost with its link: every wait for an answer ends when the link to the peer breaks, or its
// time is over.
package actors
