//go:build unix

package e2e

import (
	cmdline "flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	dataSeed  = cmdline.Int("data.seed", 0, "the first seed of the pipelines that are compared with TensorFlow's")
	dataCount = cmdline.Int("data.pipelines", 0, "how many pipelines are compared")
)

// Random pipelines of tf.data give what they give on TensorFlow's own server, element by element.
func TestPipelinesOfDatasets(t *testing.T) {
	needPython(t)
	count, limit := 150, 60*time.Second
	if full() {
		count, limit = 2000, 20*time.Minute
	}
	if *dataCount > 0 {
		count, limit = *dataCount, time.Hour
	}
	c := newCluster(t, "worker=1")
	d := drivers.borrow(t)
	args := []string{"--ours", c.tasks[0].target(), "--seed", fmt.Sprint(*dataSeed), "--pipelines", fmt.Sprint(count), "--time", fmt.Sprint(slack(limit).Seconds())}
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

// A table is filled from a dataset, once.
func TestTableOfADataset(t *testing.T) {
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	expect(t, "lookup", program(t, drivers.borrow(t), "table_of_dataset.py", c.task("worker", 0).target()), "True [12, -1, 10]")
}
