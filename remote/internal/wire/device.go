package wire

import "github.com/troupe-run/troupe/graph/device"

// DeviceOf returns a as the message, which does not have Local.
func DeviceOf(a device.Attributes) *Device {
	return &Device{Name: a.Name, Type: a.Type, MemoryLimit: a.MemoryLimit, Incarnation: a.Incarnation, Description: a.Description,
		Functions: functionsToWire[a.Functions]}
}

// Attributes returns the attributes in the message. local reports whether the device belongs to the task that was asked.
func (x *Device) Attributes(local bool) device.Attributes {
	return device.Attributes{Name: x.GetName(), Type: x.GetType(), MemoryLimit: x.GetMemoryLimit(), Incarnation: x.GetIncarnation(),
		Description: x.GetDescription(), Functions: functionsFromWire[x.GetFunctions()], Local: local}
}

var functionsToWire = map[device.Functions]Functions{
	device.UnknownFunctions: Functions_FUNCTIONS_UNKNOWN,
	device.NoFunctions:      Functions_FUNCTIONS_NONE,
	device.HasFunctions:     Functions_FUNCTIONS_SOME,
}

// functionsFromWire has no entry, and so UnknownFunctions, for numbers of later versions.
var functionsFromWire = map[Functions]device.Functions{
	Functions_FUNCTIONS_NONE: device.NoFunctions,
	Functions_FUNCTIONS_SOME: device.HasFunctions,
}

// DeviceAttributes returns the devices of the process, with Local false. It is never nil.
func (x *Identity) DeviceAttributes() []device.Attributes {
	out := make([]device.Attributes, len(x.GetDevices()))
	for i, d := range x.GetDevices() {
		out[i] = d.Attributes(false)
	}
	return out
}
