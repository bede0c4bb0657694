//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
)

var (
	dataSeed  = cmdline.Int("data.seed", 0, "the first seed of the pipelines that are compared with TensorFlow's")
	dataCount = cmdline.Int("data.pipelines", 0, "how many pipelines are compared")
)

// TestPipelinesOfDatasets compares random tf.data pipelines with TensorFlow's own server, element by element.
func TestPipelinesOfDatasets(t *testing.T) {
	t.Parallel()
	needPython(t)
	count, limit := 30, 60*time.Second
	switch {
	case extent.Full():
		count, limit = 2000, 20*time.Minute
	case extent.Check():
		count = 150
	}
	if *dataCount > 0 {
		count, limit = *dataCount, time.Hour
	}
	c := newCluster(t, "worker=1")
	d := drivers.borrow(t)
	args := []string{"--ours", c.tasks[0].target(), "--seed", fmt.Sprint(*dataSeed), "--pipelines", fmt.Sprint(count), "--time", fmt.Sprint(extent.Slack(limit).Seconds())}
	a, err := d.do(request{Program: "datasets/run.py", Args: args}, 2*limit+time.Minute)
	if err == nil {
		err = a.err()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(a.Output)
	if !strings.Contains(a.Output, "findings: 0\n") {
		t.Errorf("no word of what was found:\n%s", a.Output)
	}
}

// TestTableOfADataset checks that a table is filled from a dataset, once.
func TestTableOfADataset(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	expect(t, "lookup", program(t, drivers.borrow(t), "table_of_dataset.py", c.task("worker", 0).target()), "True [12, -1, 10]")
}
