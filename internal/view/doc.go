// Package view has what can be seen of a cluster: the messages that tell it (view.proto), the events and counts that tasks
// gather for them, and the reasoning that finds out why a step is blocked (Why). It knows nothing of where the messages
// come from or where they are shown.
package view

// The kinds of what a node waits for (Wait.Kind).
const (
	Computing  = "computing" // nothing: it computes
	Input      = "input"     // a tensor of another device
	OnResource = "resource"
	Operation  = "operation" // something else outside of the step, that it names
	Room       = "room"      // on the way to another task
	Feed       = "feed"      // of a partial run
)
