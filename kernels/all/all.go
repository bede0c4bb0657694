// Package all registers the kernels of all families. Packages that look up kernels import it:
//
//	import _ "github.com/troupe-run/troupe/kernels/all"
//
// It contains the tests of what all kernels have in common, and of ops that have rows for GPUs. With the tag cuda
// these run on an accelerator, in one process that reports the rows that no test has used.
package all

import (
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/array"
	"github.com/troupe-run/troupe/kernels/audio"
	"github.com/troupe-run/troupe/kernels/batch"
	"github.com/troupe-run/troupe/kernels/clustering"
	"github.com/troupe-run/troupe/kernels/control"
	"github.com/troupe-run/troupe/kernels/csr"
	"github.com/troupe-run/troupe/kernels/ctc"
	"github.com/troupe-run/troupe/kernels/data"
	"github.com/troupe-run/troupe/kernels/dataflow"
	"github.com/troupe-run/troupe/kernels/debug"
	"github.com/troupe-run/troupe/kernels/image"
	"github.com/troupe-run/troupe/kernels/input"
	"github.com/troupe-run/troupe/kernels/internal/variant"
	"github.com/troupe-run/troupe/kernels/linalg"
	"github.com/troupe-run/troupe/kernels/list"
	"github.com/troupe-run/troupe/kernels/lookup"
	"github.com/troupe-run/troupe/kernels/math"
	"github.com/troupe-run/troupe/kernels/nn"
	"github.com/troupe-run/troupe/kernels/quantized"
	"github.com/troupe-run/troupe/kernels/ragged"
	"github.com/troupe-run/troupe/kernels/random"
	"github.com/troupe-run/troupe/kernels/save"
	"github.com/troupe-run/troupe/kernels/script"
	"github.com/troupe-run/troupe/kernels/sdca"
	"github.com/troupe-run/troupe/kernels/sparse"
	"github.com/troupe-run/troupe/kernels/state"
	"github.com/troupe-run/troupe/kernels/strings"
	"github.com/troupe-run/troupe/kernels/summary"
	"github.com/troupe-run/troupe/kernels/training"
	"github.com/troupe-run/troupe/kernels/uniform"
)

// families are the packages with kernels, by the name of their folder. The ops of a family that is not listed here have no kernels.
var families = []struct {
	name  string
	table func() *kernels.Table
}{
	{"array", array.Table},
	{"audio", audio.Table},
	{"batch", batch.Table},
	{"clustering", clustering.Table},
	{"control", control.Table},
	{"csr", csr.Table},
	{"ctc", ctc.Table},
	{"data", data.Table},
	{"dataflow", dataflow.Table},
	{"debug", debug.Table},
	{"image", image.Table},
	{"input", input.Table},
	{"linalg", linalg.Table},
	{"list", list.Table},
	{"lookup", lookup.Table},
	{"math", math.Table},
	{"nn", nn.Table},
	{"quantized", quantized.Table},
	{"ragged", ragged.Table},
	{"random", random.Table},
	{"save", save.Table},
	{"script", script.Table},
	{"sdca", sdca.Table},
	{"sparse", sparse.Table},
	{"state", state.Table},
	{"strings", strings.Table},
	{"summary", summary.Table},
	{"training", training.Table},
	{"uniform", uniform.Table},
}

// All kernels are registered here.
func init() {
	variant.Register()
	data.Register()
	for _, f := range families {
		kernels.Register(f.table())
	}
}
