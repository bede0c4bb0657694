package place

import "testing"

// TestDefault checks that a default device is preferred to better ones, and to nothing that a node requests or needs.
func TestDefault(t *testing.T) {
	s := &sketch{}
	s.node("free", "Relu")
	s.node("requested", "Relu", on("/job:ps/task:1"))
	s.node("partly", "Relu", on("/device:GPU:0"))
	s.node("v", "VarHandleOp", on(ps0))
	s.node("use", "NoKernel", uses("v"))
	g := s.graph()
	err := Place(g, g.Nodes, Options{Devices: devicesOf(t, ps0, ps1, w0, w0gpu0, w1), Default: w1, Supports: onGPU})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"free": w1, "requested": ps1, "partly": w0gpu0, "v": ps0, "use": ps0} {
		if got := s.byName[name].Assigned; got != want {
			t.Errorf("%s is on %s, want %s", name, got, want)
		}
	}
}
