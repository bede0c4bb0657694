// Package containers holds the named state of a device: variables, queues, tables, readers,
// whatever outlives a step or a session. A [Manager] has one actor for each container name, so
// that the creation of a resource, its lookup and its deletion are serial for a container and
// never hold up another one. What a container holds is a pure map (store.go); the actor and,
// for containers that live as long as a step, a mutex are two shells round it.
//
// A container that fails (a bug, not a bad request) stops and answers ABORTED until it is
// cleared: state that is lost is never replaced silently by an empty container.
package containers
