package devices

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/graph/tensor"
)

// GPUs is how a server comes to GPU devices: a machine's cards and what opens them.
type GPUs interface {
	// Cards lists the cards that the process may use. Without any the error says why, in words for people.
	Cards() ([]cards.Card, error)
	// Open makes a planned device of the card that has the index plan.Card in what Cards gave. The caller closes
	// it, after its containers. The error names the card and the device.
	Open(plan cards.Device, place Place) (Device, error)
}

// Place is where in a task a device belongs.
type Place struct {
	// Name is its full name, Job the name of its default container, and System where its containers live.
	Name, Job string
	System    *actor.ActorSystem
	// Host is the memory of the task's CPU, for the device's tensors in host memory.
	Host *tensor.Pool
	Log  *slog.Logger
}
