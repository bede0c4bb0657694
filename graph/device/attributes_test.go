package device

import (
	"testing"

	devicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	"google.golang.org/protobuf/proto"
)

func TestProto(t *testing.T) {
	a := Attributes{Name: "/job:w/replica:0/task:0/device:GPU:0", Type: "GPU", MemoryLimit: 8 << 30, Incarnation: 1 << 63, Description: "device: 1, name: B"}
	want := &devicepb.DeviceAttributes{Name: a.Name, DeviceType: "GPU", MemoryLimit: 8 << 30, Incarnation: 1 << 63,
		PhysicalDeviceDesc: "device: 1, name: B", Locality: &devicepb.DeviceLocality{}}
	if got := a.Proto(); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, local := range []bool{false, true} {
		a.Local = local
		if got := FromProto(want, local); got != a {
			t.Errorf("got  %+v\nwant %+v", got, a)
		}
	}
}
