package gradients

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// TestModels compares the gradients of whole models, which Python built, with those that tf.gradients computed for them.
// testdata/generate.py makes the files.
func TestModels(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pb")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d models, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			def := &graphpb.GraphDef{}
			if err := proto.Unmarshal(data, def); err != nil {
				t.Fatal(err)
			}
			s := op.NewScope()
			if _, err := op.Import(s, def, nil); err != nil {
				t.Fatal(err)
			}
			var xs, wants []op.Output
			for i := 0; s.Operation(fmt.Sprint("x", i)) != nil; i++ {
				xs = append(xs, s.Operation(fmt.Sprint("x", i)).Output(0))
				wants = append(wants, s.Operation(fmt.Sprint("want", i)).Output(0))
			}
			fetches := wants
			for i, d := range grad.Gradients(s, []op.Output{s.Operation("loss").Output(0)}, xs) {
				if !d.Connected() {
					t.Fatalf("x%d has no gradient", i)
				}
				fetches = append(fetches, d.Dense(s))
			}
			sess := session(t, s)
			values, shapes := run(t, sess, nil, fetches...)
			for i, x := range xs {
				want, got := values[i], values[len(xs)+i]
				if !shapes[i].Equal(shapes[len(xs)+i]) {
					t.Errorf("the gradient of %s has the shape %v, not %v", x.Name(), shapes[len(xs)+i], shapes[i])
					continue
				}
				tolerance := 1e-12
				if x.DType() == tensor.Float32 {
					tolerance = 2e-5
				}
				for k := range want {
					if math.Abs(got[k]-want[k]) > tolerance*max(1, math.Abs(want[k])) || math.IsNaN(got[k]) {
						t.Errorf("%s, element %d: %v, TensorFlow has %v", x.Name(), k, got[k], want[k])
					}
				}
			}
		})
	}
}
