package show

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/encoding/prototext"
)

var rewrite = flag.Bool("rewrite", false, "write what is shown into the golden files")

func cluster(t *testing.T, file string) *view.Cluster {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &view.Cluster{}
	if err := prototext.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name + ".golden"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
	}
}

// TestTables shows a cluster in tables of any width, and of 80 columns.
func TestTables(t *testing.T) {
	c := cluster(t, "testdata/cluster.txt")
	tables := []struct {
		name, section string
		table         *Table
	}{
		{"sessions", "sessions", Sessions(c)},
		{"steps", "steps", Steps(c, view.WhyAll(c, Slow))},
		{"queues", "resources", Queues(c)},
		{"containers", "resources", Containers(c)},
		{"links", "links", Links(c)},
	}
	for _, table := range tables {
		var out bytes.Buffer
		for _, columns := range []int{0, 80} {
			if err := table.table.Write(&out, columns); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out)
			for _, line := range table.table.Lines(columns) {
				if columns > 0 && Width(line) > columns {
					t.Errorf("%s: a line takes %d columns of %d: %s", table.name, Width(line), columns, line)
				}
			}
		}
		for _, line := range Missing(c, table.section, table.name) {
			fmt.Fprintln(&out, line)
		}
		golden(t, table.name, out.String())
	}
	golden(t, "events", strings.Join(EventLines(c, time.UTC, 0), "\n")+"\n")
}

// TestNarrow checks that no table is wider than its terminal, however narrow that is.
func TestNarrow(t *testing.T) {
	c := cluster(t, "testdata/cluster.txt")
	for columns := 1; columns < 250; columns++ {
		for _, table := range []*Table{Sessions(c), Queues(c), Containers(c), Links(c)} {
			for _, line := range table.Lines(columns) {
				if Width(line) > columns {
					t.Fatalf("a line takes %d columns of %d: %s", Width(line), columns, line)
				}
			}
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"abc", 1, "…"}, {"a\u0301b", 2, "a\u0301b"},
	} {
		if got := Cut(c.text, c.columns); got != c.want || Width(got) > c.columns {
			t.Errorf("%q in %d columns: %q of %d", c.text, c.columns, got, Width(got))
		}
	}
}

func TestWrap(t *testing.T) {
	text := "a sentence of some length with averyverylongwordthatdoesnotfitaline 日本語日本語日本語日本語 at its end"
	for columns := 12; columns < 120; columns++ {
		lines := wrap(text, columns)
		for _, line := range lines {
			if Width(line) > columns {
				t.Fatalf("%d columns: %q", columns, line)
			}
		}
		if got := strings.ReplaceAll(strings.Join(lines, ""), " ", ""); got != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%d columns: %q", columns, lines)
		}
	}
}

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{-5: "0ms", 40 * time.Millisecond: "40ms", 90 * time.Second: "90s", 20 * time.Minute: "20m", 5 * time.Hour: "5h", 100 * time.Hour: "4d"} {
		if got := Age(int64(d)); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}

// TestTop shows a cluster as top does: after two looks, of which the second one is the golden tests' cluster, on screens of several sizes.
func TestTop(t *testing.T) {
	now := cluster(t, "testdata/cluster.txt")
	before := cluster(t, "testdata/cluster.txt")
	before.Clock -= 2e9
	ps := before.Tasks[0]
	ps.Process.Clock -= 2e9
	ps.Process.CpuSeconds -= 3
	ps.Totals.StepsDone -= 40
	ps.Totals.StepsFailed["CANCELLED"]--
	ps.Totals.StepSeconds.Counts = []int64{0, 0, 0, 51, 1}
	before.Tasks[1].Process.Boot = "another start"
	s := &Screen{Before: before, Now: now, Reasons: view.WhyAll(now, Slow), Order: ByName}
	inUTC(t)
	var out bytes.Buffer
	for _, size := range [][2]int{{0, 0}, {80, 40}, {80, 18}, {40, 10}} {
		s.Columns, s.Lines = size[0], size[1]
		lines := s.Render()
		if size[1] > 0 && len(lines) > size[1] {
			t.Errorf("%d lines on a screen of %d", len(lines), size[1])
		}
		for _, line := range lines {
			if size[0] > 0 && Width(line) > size[0] {
				t.Errorf("a line takes %d columns of %d: %s", Width(line), size[0], line)
			}
		}
		fmt.Fprintf(&out, "%d columns, %d lines\n%s\n\n", size[0], size[1], strings.Join(lines, "\n"))
	}
	golden(t, "top", out.String())

	first := func(o Order) string {
		s.Order = o
		return s.rates()[0].task.Task
	}
	for o, want := range map[Order]string{ByName: "/job:ps/replica:0/task:0", ByCPU: "/job:ps/replica:0/task:0", ByMemory: "/job:ps/replica:0/task:0",
		BySteps: "/job:ps/replica:0/task:0", ByErrors: "/job:ps/replica:0/task:0", ByLatency: "/job:ps/replica:0/task:0"} {
		if got := first(o); got != want {
			t.Errorf("sorted by %s: %s is first, not %s", orders[o], got, want)
		}
	}
	now.Tasks[1].Process.MemoryInUse = 1 << 40
	if got := first(ByMemory); got != "/job:worker/replica:0/task:0" {
		t.Errorf("sorted by memory: %s is first", got)
	}
	for lines := range 40 {
		s.Columns, s.Lines = 80, lines
		if got := len(s.Render()); lines > 2 && got > lines {
			t.Errorf("%d lines on a screen of %d", got, lines)
		}
	}
	s.Before, s.Columns, s.Lines, s.Trouble = nil, 0, 0, "No answer for 5s: \x1b[2Jgone"
	if text := strings.Join(s.Render(), "\n"); !strings.Contains(text, "No answer for 5s: \uFFFD[2Jgone") || !regexp.MustCompile(`/job:ps/task:0 +up +- `).MatchString(text) {
		t.Errorf("the first look: %s", text)
	}
}

// inUTC makes times show in UTC.
func inUTC(t *testing.T) {
	was := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = was })
}
