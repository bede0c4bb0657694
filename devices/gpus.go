package devices

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/graph/tensor"
)

// GPUs gives a server access to GPU devices: it lists a machine's cards and opens them.
type GPUs interface {
	// Cards lists the cards that the process may use. If there are none, the error says why, in words for people.
	Cards() ([]cards.Card, error)
	// Open makes a planned device on the card at index plan.Card of the result of Cards. The caller closes it, after its containers. Errors
	// name the card and the device.
	Open(plan cards.Device, place Place) (Device, error)
}

// Place is the place of a device within a task.
type Place struct {
	// Name is the device's full name, Job the name of its default container, and System the actor system of its containers.
	Name, Job string
	System    *actor.ActorSystem
	// Host is the memory of the task's CPU, used for the device's tensors in host memory.
	Host *tensor.Pool
	Log  *slog.Logger
}
