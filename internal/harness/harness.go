// Package harness gives package troupetest what it needs from servers and programs cannot have. The root package sets the functions when
// it is initialized. Their types are any where they belong to the root package, which this one cannot import.
package harness

import "github.com/troupe-run/troupe/internal/network"

var (
	// Place returns a troupe.Option that makes a server a task of its cluster, on a network that only this process reaches. The server does
	// not serve until it is started. The option must be the last one: it refuses those before it that place the server elsewhere.
	Place func(n network.Network, job string, task int) any
	// TensorMemory returns the number of bytes that tensors take on the devices of a *troupe.Server, which may have stopped.
	TensorMemory func(server any) int64
)
