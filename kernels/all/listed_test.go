package all

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/kernels"
)

// TestMissingOpsAreListed checks that each op for which TensorFlow 2.21 registers a CPU kernel either has one here or is listed with a
// reason in docs/ops.md, and that no listed op has a kernel. testdata/tensorflow_ops.txt is sorted({k.op for k in
// kernels.get_all_registered_kernels().kernel if k.device_type == "CPU"}) of tensorflow.python.framework.kernels.
func TestMissingOpsAreListed(t *testing.T) {
	b, err := os.ReadFile("testdata/tensorflow_ops.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	have := kernels.Ops()
	for op := range strings.FieldsSeq(string(b)) {
		if !slices.Contains(have, op) {
			missing = append(missing, op)
		}
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([A-Za-z0-9_*]+)`").FindAllStringSubmatch(cells[1], -1) {
			found := false
			for _, op := range missing {
				if ok, err := path.Match(m[1], op); err != nil {
					t.Fatal(err)
				} else if ok {
					listed[op], found = true, true
				}
			}
			if !found {
				t.Errorf("docs/ops.md lists %s, which has a kernel or is none of TensorFlow's", m[1])
			}
		}
	}
	for _, op := range missing {
		if !listed[op] {
			t.Errorf("%s has no kernel, and docs/ops.md gives no reason", op)
		}
	}
}
