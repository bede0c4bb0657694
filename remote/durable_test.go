package remote

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/internal/durable"
)

// TestStateOfARenamedJob checks that the state of jobs which the cluster does not have is found beside that of a task.
func TestStateOfARenamedJob(t *testing.T) {
	data := t.TempDir()
	for dir, owner := range map[string]string{"trainer-0": "/job:trainer/replica:0/task:0", "ps-0": "/job:ps/replica:0/task:0", "ps-7": "/job:ps/replica:0/task:7"} {
		s, err := durable.Open(filepath.Join(data, dir), durable.Options{Owner: owner, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"notes-1", "empty"} {
		if err := os.Mkdir(filepath.Join(data, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "notes-1", "OWNER"), []byte("somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		jobs []string
		want []string
	}{
		{[]string{"ps", "trainer"}, nil},
		{[]string{"ps", "worker"}, []string{"trainer-0"}},
		{[]string{"worker"}, []string{"ps-0", "ps-7", "trainer-0"}},
	} {
		if got := leftBehind(data, c.jobs); !slices.Equal(got, c.want) {
			t.Errorf("beside the jobs %v: %v, want %v", c.jobs, got, c.want)
		}
	}
	if got := leftBehind(filepath.Join(data, "none"), nil); got != nil {
		t.Errorf("without a directory: %v", got)
	}
}
