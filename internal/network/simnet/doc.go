// Package simnet is a network in memory: hosts, and TCP connections and UDP packets between them, with a delay, losses, and faults that a
// test chooses. It never leaves the process and waits only for timers and its own condition variables, so a cluster on it runs in the
// simulated time of testing/synctest.
//
// A Net has hosts with one IP address each, in addition to loopback, and a Host has processes. Names belong to the Net, as in DNS, or to
// one Host, as in its /etc/hosts. A host may forward ports to another one. A Process is a network.Network, so each task can have its own.
// Freeze silently stops everything from and to a host, like a stopped machine or a pulled cable; Cut does so between two hosts. Kill resets
// the connections of a process and closes its listeners, as its end does.
package simnet
