// Package view holds the observable state of a cluster: the messages that describe it (view.proto), the events and counts that tasks
// collect for them, and the analysis of why a step is blocked (Why). It does not depend on where the messages come from or where they are
// shown.
package view

// The kinds of what a node waits for (Wait.Kind).
const (
	Computing  = "computing" // nothing: it computes
	Input      = "input"     // a tensor from another device
	OnResource = "resource"
	Operation  = "operation" // something else outside of the step, which it names
	Room       = "room"      // in the send queue to another task
	Feed       = "feed"      // of a partial run
	Disk       = "disk"      // that keeps durable containers: the step has run, and its changes are being written
)
