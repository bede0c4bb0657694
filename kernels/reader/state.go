package reader

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"github.com/troupe-run/troupe/queues"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of tensorflow.ReaderBaseState.
const (
	fieldStarted  = 1
	fieldFinished = 2
	fieldProduced = 3
	fieldWork     = 4
)

// SerializeState passes the state for RestoreState, a tensorflow.ReaderBaseState, to a step. It is UNIMPLEMENTED for readers that may be in
// the middle of a file.
func (r *Reader) SerializeState(step queues.Step, by queues.Origin, done func(state string, err error)) (cancel func(error)) {
	state := ""
	return r.now(step, by, func() error {
		if !r.source.Whole() {
			return status.Unimplementedf("Reader SerializeState")
		}
		var b []byte
		for i, v := range []int64{r.started.Load(), r.finished.Load(), r.produced.Load()} {
			if v != 0 {
				b = protowire.AppendTag(b, protowire.Number(fieldStarted+i), protowire.VarintType)
				b = protowire.AppendVarint(b, uint64(v))
			}
		}
		if r.work != "" {
			b = protowire.AppendTag(b, fieldWork, protowire.BytesType)
			b = protowire.AppendString(b, r.work)
		}
		state = string(b)
		return nil
	}, func(err error) { done(state, err) })
}

// RestoreState restores a state that SerializeState returned for a reader of the same kind. After an error the reader is in its initial
// state.
func (r *Reader) RestoreState(step queues.Step, by queues.Origin, state string, done func(error)) (cancel func(error)) {
	return r.now(step, by, func() error {
		err := r.restore(state)
		if err != nil {
			r.reset()
		}
		return err
	}, done)
}

func (r *Reader) restore(state string) error {
	if !r.source.Whole() {
		return status.Unimplementedf("Reader RestoreState")
	}
	var counts [3]int64
	work := ""
	for f, err := range protofield.All([]byte(state)) {
		switch {
		case err != nil:
			return r.malformed(state)
		case f.Number >= fieldStarted && f.Number <= fieldProduced && f.Type == protowire.VarintType:
			counts[f.Number-fieldStarted] = int64(f.Varint)
		case f.Is(fieldWork, protowire.BytesType):
			work = string(f.Bytes)
		}
	}
	text := fmt.Sprintf("work_started: %d work_finished: %d num_records_produced: %d current_work: \"%s\"", counts[0], counts[1], counts[2], escape(work))
	switch {
	case counts[0] < 0 || counts[1] < 0 || counts[2] < 0:
		return status.InvalidArgumentf("Unexpected negative value when restoring in %s: %s", r.title(), text)
	case counts[0] > counts[1]:
		return status.InvalidArgumentf("Inconsistent work started vs. finished when restoring in %s: %s", r.title(), text)
	}
	r.source.Close()
	r.started.Store(counts[0])
	r.finished.Store(counts[1])
	r.produced.Store(counts[2])
	r.begins(work)
	return nil
}

func (r *Reader) malformed(state string) error {
	return status.InvalidArgumentf("Could not parse state for %s: %s", r.title(), escape(state))
}

// escape writes bytes as in C: unprintable ones in octal.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '"', '\'', '\\':
			b.WriteString(`\` + string(rune(c)))
		default:
			if c < ' ' || c >= 0x7f {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
