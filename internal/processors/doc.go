// Package processors divides the process's processors between clients when their work wants more of them than there are.
//
// Go gives every goroutine the same part of the processors. A client with a hundred steps that compute would so get a
// hundred times as much as one with a single step, and what comes over the network would wait behind all of them: a
// processor that always has a goroutine to run looks for the network's only every ten milliseconds.
//
// Here a piece of Work that takes long, a step's part or the building of a graph, holds a slot while it computes. There
// are as many slots as processors. Work that has held one for a slice of time hands it over to the client that has had the least of the
// processors. Clients whose work takes all it can get leave one processor to the others, if any of these has begun a
// step lately. Where there are enough processors, nobody waits and no time is measured.
//
// Short work holds no slot. There is one Scheduler in a process, whatever the number of its servers.
package processors
