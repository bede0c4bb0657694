// Package device describes the devices of tasks, as executors publish them, tasks exchange them and clients list them.
package device

import devicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"

// Attributes describe a device of a task.
type Attributes struct {
	// Name is the full name, such as /job:worker/replica:0/task:1/device:CPU:0; Type is CPU or GPU.
	Name, Type string
	// MemoryLimit is in bytes; 0 means no limit. Incarnation is a random number that is new at each start of the device.
	MemoryLimit int64
	Incarnation uint64
	// Description describes the hardware for people, in TensorFlow's words. It is empty for a CPU.
	Description string
	// Functions is whether graphs on the device can call functions of the program that owns its server.
	Functions Functions
	// Local reports whether the device belongs to the task that was asked.
	Local bool
}

// Functions is what is known of the functions of a program that graphs on a device can call.
type Functions uint8

// Tasks that were never reached, and those of clusters that TensorFlow's clients describe, have UnknownFunctions.
const (
	UnknownFunctions Functions = iota
	NoFunctions                // the server belongs to no program
	HasFunctions
)

// Proto returns a as TensorFlow's message, which has neither Functions nor Local.
func (a Attributes) Proto() *devicepb.DeviceAttributes {
	return &devicepb.DeviceAttributes{Name: a.Name, DeviceType: a.Type, MemoryLimit: a.MemoryLimit, Incarnation: a.Incarnation,
		PhysicalDeviceDesc: a.Description, Locality: &devicepb.DeviceLocality{}}
}

// FromProto returns the attributes in TensorFlow's message. local reports whether the device belongs to the task that was asked.
func FromProto(p *devicepb.DeviceAttributes, local bool) Attributes {
	return Attributes{Name: p.GetName(), Type: p.GetDeviceType(), MemoryLimit: p.GetMemoryLimit(), Incarnation: p.GetIncarnation(),
		Description: p.GetPhysicalDeviceDesc(), Local: local}
}
