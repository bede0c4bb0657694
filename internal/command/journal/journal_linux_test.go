package journal

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// plainText is a handler without times.
func plainText(out io.Writer) slog.Handler {
	return slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
}

// write logs and prints to a file that is the journal's stream or another one, and returns the file's content.
func write(t *testing.T, journal bool) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	inode := s.Ino
	if !journal {
		inode++
	}
	t.Setenv(stream, fmt.Sprintf("%d:%d", s.Dev, inode))
	log := slog.New(Handler(file, plainText))
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelInfo + 1, slog.LevelWarn, slog.LevelError, slog.LevelError + 4} {
		log.With("a", 1).WithGroup("g").Log(t.Context(), level, "two\nlines", "b", 2)
	}
	if _, err := io.WriteString(Lines(file, Error), "one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPriorities(t *testing.T) {
	const record = `msg="two\nlines" a=1 g.b=2` + "\n"
	want := ""
	for _, p := range []int{7, 6, 6, 4, 3, 3} {
		want += fmt.Sprintf("<%d>%s", p, record)
	}
	want += "<3>one\n<3>two\n"
	if got := write(t, true); got != want {
		t.Errorf("to the journal:\n%swant\n%s", got, want)
	}
}

// TestOtherStreams checks that the output of a child process, whose standard error is not the journal's stream, has no priorities.
func TestOtherStreams(t *testing.T) {
	const record = `msg="two\nlines" a=1 g.b=2` + "\n"
	if got := write(t, false); got != record+record+record+record+record+record+"one\ntwo\n" {
		t.Errorf("to another file:\n%s", got)
	}
}

func TestPlainWriters(t *testing.T) {
	t.Setenv(stream, "1:1")
	if Lines(io.Discard, Error) != io.Discard {
		t.Error("a writer that is no file is taken for the journal")
	}
}
