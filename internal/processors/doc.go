// Package processors divides the process's processors between clients that together want more than there are.
//
// Go gives every goroutine an equal share of the processors. A client with a hundred computing steps would thus get a hundred times as much
// as one with a single step. Network input would wait behind all of them: a processor that always has a goroutine to run polls the network
// only every ten milliseconds.
//
// Here a piece of Work that takes long (a step's part or the building of a graph) holds a slot while it computes. There are as many slots
// as processors. Work that has held a slot for a time slice hands it over to the client that has used the processors least. Clients that
// take all they can get leave one processor to the others, if any of these has begun a step recently. If there are enough processors,
// nothing waits and no time is measured.
//
// Short work holds no slot. There is one Scheduler in a process, whatever the number of its servers.
package processors
