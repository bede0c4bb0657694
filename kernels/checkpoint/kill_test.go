package checkpoint_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels/checkpoint"
	"github.com/troupe-run/troupe/kernels/files"
)

// saverFolder, in the environment, makes the test binary a process that saves successive generations in a folder, and prints each one when
// it is complete, until it is killed.
const saverFolder = "TROUPE_TEST_SAVER_FOLDER"

func TestMain(m *testing.M) {
	dir := os.Getenv(saverFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	first, err := strconv.Atoi(os.Args[len(os.Args)-1])
	for n := int32(first); err == nil; n++ {
		err = saveAnyhow(dir, n)
		fmt.Println(n)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// saveAnyhow saves a generation under the same prefix, one under its own prefix, of which the last two are kept, and one in format V1.
func saveAnyhow(dir string, n int32) error {
	g := generation(n)
	if err := tryWrite(files.All, filepath.Join(dir, "model"), g); err != nil {
		return err
	}
	if err := tryWrite(files.All, filepath.Join(dir, fmt.Sprint("model-", n)), g); err != nil {
		return err
	}
	for _, name := range []string{"model-%d.data-00000-of-00001", "model-%d.index"} {
		if err := os.Remove(filepath.Join(dir, fmt.Sprintf(name, n-2))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return checkpoint.WriteV1(files.All, filepath.Join(dir, "v1"), []checkpoint.Named{{Name: "a", Whole: g[0].tensor.Shape(), Slice: checkpoint.Whole(1), Tensor: g[0].tensor}})
}

// TestKilledSavers kills savers at random moments. The last checkpoint reported complete, or a later one, must be readable. After the next
// save, the folder must contain no file that no checkpoint needs.
func TestKilledSavers(t *testing.T) {
	kills := 100
	if !extent.Check() {
		kills = 10
	}
	dir := t.TempDir()
	prefix := filepath.Join(dir, "model")
	known, cutOff := 0, 0
	for range kills {
		known = max(known, saveUntilKilled(t, dir, known+1))
		if len(unneeded(t, files.All, list(t, dir))) > 0 {
			cutOff++
		}
		checkpoint.Sweep(files.All, prefix)
		if left := unneeded(t, files.All, list(t, dir)); len(left) > 0 {
			t.Fatalf("left over after a restore: %q", left)
		}
		n, err := generationOf(files.All, prefix)
		if err != nil || int(n) < known {
			t.Fatalf("generation %d was saved, but there is %d, %v", known, n, err)
		}
		known = int(n)
	}
	if cutOff == 0 {
		t.Errorf("none of %d kills came in the midst of a save", kills)
	}
	t.Logf("%d generations, %d of %d kills came in the midst of a save", known, cutOff, kills)
}

// list returns the paths of the files in a folder.
func list(t *testing.T, dir string) (all []string) {
	t.Helper()
	names, err := files.All.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all = append(all, filepath.Join(dir, name))
	}
	return all
}

// saveUntilKilled runs a saver briefly and returns the last generation that it reported.
func saveUntilKilled(t *testing.T, dir string, first int) (last int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$", strconv.Itoa(first))
	cmd.Env = append(os.Environ(), saverFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if lines.Scan() { // it is running
		last, _ = strconv.Atoi(lines.Text())
	}
	timer := time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		last, _ = strconv.Atoi(lines.Text())
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the saver ended by itself: %v", err)
	}
	return last
}

// TestLiveSavesAreLeftAlone ends saves while another one in the folder is running.
func TestLiveSavesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	slow, err := checkpoint.Create(files.All, filepath.Join(dir, "slow"), opaque{})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Abort()
	if err := tryWrite(files.All, filepath.Join(dir, "model"), generation(1)); err != nil {
		t.Fatal(err)
	}
	checkpoint.Sweep(files.All, filepath.Join(dir, "slow"))
	for _, n := range generation(2)[:1] {
		if err := slow.Add(n.name, n.tensor); err != nil {
			t.Fatal(err)
		}
	}
	if err := slow.Finish(); err != nil {
		t.Error(err)
	}
	r := open(t, files.All, filepath.Join(dir, "slow"))
	r.Close()
	if left := unneeded(t, files.All, list(t, dir)); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// TestForgedJournals checks that a journal causes only files that a save in its folder may have created to be removed.
func TestForgedJournals(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "d")
	prefix := filepath.Join(dir, "model")
	if err := tryWrite(files.All, prefix, generation(1)); err != nil {
		t.Fatal(err)
	}
	keep := []string{"d/notes", "d/model.index", "d/model.data-00000-of-00001", "d/save.tempstate", "d/.save.tempstatexyz", "precious.index", "precious.data-00000-of-00001"}
	for _, name := range slices.Concat(keep[:1], keep[3:]) {
		if err := os.WriteFile(filepath.Join(base, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range []string{
		`{"Sources":["../precious.index","` + base + `/precious.index","notes","../d/notes"],"Committed":true}`,
		`{"Base":"../precious","First":0,"Count":1,"Shards":1}`,
		`{"Base":"model","First":0,"Count":1,"Shards":1}`,
		`{"Base":"model","First":-1,"Count":2147483647,"Shards":2147483647}`,
		`{"Base":"/etc/x","Count":1,"Shards":1}`,
		`{"Base":"none","Count":2147483647,"Shards":2147483647}`,
		`{"Base":`, "", "null", strings.Repeat("x", 1<<21),
	} {
		journal := filepath.Join(dir, fmt.Sprintf(".save.tempstate%016x", i))
		if err := os.WriteFile(journal, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		checkpoint.Sweep(files.All, prefix)
		if _, err := os.Stat(journal); !os.IsNotExist(err) {
			t.Errorf("%.80s: the journal is still there: %v", text, err)
		}
		for _, name := range keep {
			if _, err := os.Stat(filepath.Join(base, name)); err != nil {
				t.Fatalf("%.80s: %v", text, err)
			}
		}
	}
}
