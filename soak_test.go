package troupe

import (
	"flag"
	"math"
	"os"
	"runtime"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/protobuf/encoding/prototext"
)

var soak = flag.Bool("soak", false, "run the memory tests in full: 100,000 steps and 100,000 sessions, which takes minutes")

// soakLoop is a loop with TensorArrays and its gradient (testdata/soak.py).
func soakLoop(t *testing.T) *graphpb.GraphDef {
	t.Helper()
	text, err := os.ReadFile("testdata/soak.pbtxt")
	if err != nil {
		t.Fatal(err)
	}
	graph := &graphpb.GraphDef{}
	if err := prototext.Unmarshal(text, graph); err != nil {
		t.Fatal(err)
	}
	return graph
}

// memory returns the memory in use, which is the live heap and the goroutines' stacks, and the number of goroutines.
func memory() (bytes, goroutines int) {
	runtime.GC()
	runtime.GC() // the second frees what was only in a sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// steady runs f for a warm-up and then n times. The test fails if the memory in use has then grown by more than a tenth
// since the warm-up.
func steady(t *testing.T, warm, n int, f func(i int)) {
	t.Helper()
	for i := range warm {
		f(i)
	}
	before, started := memory()
	for i := range n {
		f(warm + i)
	}
	after, running := memory()
	t.Logf("%d times: %d KiB and %d goroutines before, %d KiB and %d after", n, before>>10, started, after>>10, running)
	if after > before+before/10 {
		t.Errorf("after %d times there are %d KiB in use, %d before", n, after>>10, before>>10)
	}
	if running > started+8 {
		t.Errorf("after %d times there are %d goroutines, %d before", n, running, started)
	}
}

func soakSize(short, full int) int {
	if *soak {
		return full
	}
	return short
}

// soakRun runs a step of soakLoop and checks its results.
func soakRun(t *testing.T, session *client.Session, i int) {
	t.Helper()
	x, err := tensor.New(tensor.Host, tensor.Float32, tensor.Shape{16})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	for j := range tensor.Of[float32](x) {
		tensor.Of[float32](x)[j] = float32(i % 3)
	}
	out, err := session.Run(t.Context(), map[string]*tensor.Tensor{"x:0": x}, []string{"loss:0", "gradient:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Each of the 16 columns is s(0) = v and s(n+1) = tanh(s(n) + v), whose squares are added up.
	v, sum := float64(i%3), 0.0
	for s, n := v, 0; n < 8; n++ {
		sum += 16 * s * s
		s = math.Tanh(s + v)
	}
	if got := float64(tensor.Of[float32](out[0])[0]); math.Abs(got-sum) > 1e-3*(1+sum) {
		t.Fatalf("step %d: the loss is %v, not %v", i, got, sum)
	}
	for _, o := range out {
		o.Release()
	}
}

// TestStepsKeepNoMemory runs many steps of a loop with TensorArrays and its gradient.
func TestStepsKeepNoMemory(t *testing.T) {
	s := localServer(t)
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	session, err := c.NewSession(t.Context(), soakLoop(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	steady(t, soakSize(1500, 2000), soakSize(1000, 100_000), func(i int) { soakRun(t, session, i) })
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSessionsKeepNoMemory opens and closes many sessions, each of which runs a step; one in a hundred has
// the loop for its graph.
func TestSessionsKeepNoMemory(t *testing.T) {
	s := localServer(t)
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	loop, small := soakLoop(t), accumulator()
	steady(t, soakSize(100, 2000), soakSize(200, 100_000), func(i int) {
		graph := small
		if i%100 == 0 {
			graph = loop
		}
		session, err := c.NewSession(t.Context(), graph, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			soakRun(t, session, i)
		} else if _, err := session.Run(t.Context(), nil, nil, []string{"init"}); err != nil {
			t.Fatal(err)
		}
		if err := session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
