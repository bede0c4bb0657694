// Package containers holds the named state of a device: variables, queues, tables, readers and whatever else outlives a step or a session.
// A [Manager] has one actor for each container name. Creation, lookup and deletion of resources are serial within a container and never
// delay another one. The contents of a container are a pure map (store.go). Two thin shells surround it: the actor and, for containers that
// live as long as a step, a mutex.
//
// A container that fails (a bug, not a bad request) stops and answers ABORTED until it is cleared. Lost state is never silently replaced by
// an empty container.
package containers
