package remote

import (
	"maps"
	"testing"
)

// TestExpectedMethods holds that calls of all methods wait for a server that is starting, whatever their shape.
func TestExpectedMethods(t *testing.T) {
	n := servers(t, 1)[0]
	got, want := n.Port().Services().Shapes(), n.Streams()
	delete(got, "/grpc.health.v1.Health/Watch") // it is there from the beginning
	if !maps.Equal(got, want) {
		t.Errorf("the methods that are not unary are %v, and expected are %v", got, want)
	}
}
