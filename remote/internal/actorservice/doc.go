// Package actorservice serves troupe.program.v1.Actors: programs that are not tasks of the cluster send messages to the actors of those that
// are, ask them, watch them, and make and end them. The messages are passed on as they are; package cast does the work.
package actorservice
