package port

import (
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// accepts is a listener whose Accept fails or not, as listed, then reports that it is closed. It records when Accept
// was called.
type accepts struct {
	net.Listener
	fails []bool
	calls []time.Time
}

func (a *accepts) Accept() (net.Conn, error) {
	a.calls = append(a.calls, time.Now())
	if len(a.fails) == 0 {
		return nil, net.ErrClosed
	}
	fails := a.fails[0]
	a.fails = a.fails[1:]
	if fails {
		return nil, errors.New("no room")
	}
	near, far := net.Pipe()
	return near, far.Close()
}

func (*accepts) Close() error { return nil }

// TestAcceptPauses checks that failures to accept are followed by growing pauses, and connections by none.
func TestAcceptPauses(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		fails []bool
		want  []time.Duration
	}{
		{[]bool{false, false}, []time.Duration{0, 0}},
		{[]bool{true, true, false, true}, []time.Duration{5 * ms, 10 * ms, 0, 5 * ms}},
		{slices.Repeat([]bool{true}, 10), []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms,
			time.Second, time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &accepts{fails: row.fails}
			m := newMux(nil, l, nil, silent)
			m.start()
			m.work.Wait()
			var got []time.Duration
			for i, at := range l.calls[1:] {
				got = append(got, at.Sub(l.calls[i]))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("after %v, the pauses are %v, want %v", row.fails, got, row.want)
			}
			<-m.close()
		})
	}
}
