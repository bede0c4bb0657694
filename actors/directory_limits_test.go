package actors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestHomesAreBounded checks that names which clients make up take bounded memory of a directory, those of one container half of it, and that a
// reset makes room.
func TestHomesAreBounded(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	const limit = 1 << 20
	d := &directory{task: n.task, homes: map[resourceName]home{}, of: map[string]int64{}, limit: limit}
	long := strings.Repeat("x", 1000)
	fill := func(container string) (count int, err error) {
		for ; ; count++ {
			name := resourceName{container, "VarHandleOp", fmt.Sprint(long, count)}
			if err := d.room(name); err != nil {
				return count, err
			}
			d.keep(name, home{n.name + "/device:CPU:0", n.name})
			d.keep(name, home{n.name + "/device:CPU:0", n.name}) // again
		}
	}
	first, err := fill("mine")
	wantError(t, err, status.ResourceExhausted, `of the container "mine", and its limit for one container is 524288`)
	second, err := fill("yours")
	wantError(t, err, status.ResourceExhausted, "holds names of", "its limit is 1048576")
	if most := limit / 2 / len(long); first != second && first != second+1 || first > most || first < most/2 {
		t.Errorf("the directory has taken %d names and then %d", first, second)
	}
	if _, err := fill("ours"); err == nil || d.bytes > limit {
		t.Errorf("%d bytes are taken, %v", d.bytes, err)
	}
	d.forget([]string{"mine", "other"})
	if again, _ := fill("ours"); again < second {
		t.Errorf("after a reset, there is room for %d names", again)
	}
	d.forget([]string{"yours", "ours"})
	if len(d.homes) != 0 || d.bytes != 0 || len(d.of) != 0 || len(n.task.shared.all()) != 0 {
		t.Errorf("%d homes of %d bytes are left in %d containers", len(d.homes), d.bytes, len(d.of))
	}
}
