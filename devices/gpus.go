package devices

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/cards"
)

// GPUs is how a server comes to GPU devices: a machine's cards and what opens them.
type GPUs interface {
	// Cards lists the cards that the process may use. Without any the error says why, in words for people.
	Cards() ([]cards.Card, error)
	// Open makes the device with a full name of the card with the index plan.Card in what Cards gave. Its
	// containers are like a CPU's: job names the default one. The caller closes it.
	Open(system *actor.ActorSystem, name, job string, plan cards.Device) (Device, error)
}
