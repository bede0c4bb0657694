package demo

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// The demo sends a terminal codes for colours, and none that come from printed texts.
func TestColours(t *testing.T) {
	const hostile = "a\x1b[2Jb"
	for fancy, want := range map[bool]string{
		true:  "\n\x1b[1m3. a\ufffd[2Jb\x1b[0m\n   \x1b[32mok:\x1b[0m a\ufffd[2Jb (1ms)\n   \x1b[31mfailed:\x1b[0m a\ufffd[2Jb\n",
		false: "\n3. a\ufffd[2Jb\n   ok: a\ufffd[2Jb (1ms)\n   failed: a\ufffd[2Jb\n",
	} {
		var out bytes.Buffer
		p := &printer{w: &out, fancy: fancy}
		p.title(3, hostile)
		p.passed(hostile, time.Millisecond)
		p.failed(errors.New(hostile))
		if out.String() != want {
			t.Errorf("fancy %v: %q, want %q", fancy, out.String(), want)
		}
	}
}
