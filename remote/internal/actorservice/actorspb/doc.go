// Package actorspb has the messages of the service troupe.program.v1.Actors, which actors.proto describes, and the names of its methods.
package actorspb

// The full names of the methods of troupe.program.v1.Actors.
const (
	Service = "troupe.program.v1.Actors"
	Ask     = "/" + Service + "/Ask"
	Send    = "/" + Service + "/Send"
	Spawn   = "/" + Service + "/Spawn"
	End     = "/" + Service + "/End"
	Publish = "/" + Service + "/Publish"
	Watch   = "/" + Service + "/Watch"
)
