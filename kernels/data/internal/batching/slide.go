package batching

import (
	"io"

	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// slidingWindow returns windows as batches.
type slidingWindow struct{ window }

func newSlidingWindow(s *dataset.Settings) dataset.Maker {
	drops := !s.Has("drop_remainder") || s.Bool("drop_remainder")
	return func(in *dataset.Inputs) dataset.Kind {
		k := slidingWindow{window{
			input:  in.Dataset(0),
			size:   in.Positive(in.Int(1, "window_size"), "Window size"),
			shift:  in.Positive(in.Int(2, "window_shift"), "Window shift"),
			stride: in.Positive(in.Int(3, "window_stride"), "window_stride"),
			drops:  drops,
		}}
		k.checkSpan(in)
		return &k
	}
}

func (k *slidingWindow) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &sliding{windowing{Over: o, of: &k.window}} })
}

// sliding buffers no failures: a failed element is skipped and its error returned.
type sliding struct{ windowing }

func (it *sliding) Next(c *dataset.Call) (dataset.Element, error) {
	span := it.of.spans()
	for int64(len(it.buffer)) < span && !it.ended {
		e, err := it.ask(c)
		if err != nil {
			return nil, err
		}
		if !it.ended {
			if err := it.push(c, dataset.Outcome{Element: e}); err != nil {
				return nil, err
			}
		}
	}
	if len(it.buffer) == 0 || it.of.drops && int64(len(it.buffer)) < span {
		return nil, io.EOF
	}
	var list []dataset.Element
	defer func() { dataset.ReleaseAll(list) }()
	for i := int64(0); i < int64(len(it.buffer)); i += it.of.stride {
		list = append(list, it.buffer[i].Retain())
	}
	// Skip the elements between this window and the next first. If that fails, the window is not returned, and the next one is the same, as
	// in TensorFlow.
	for i := int64(len(it.buffer)); i < it.of.shift && !it.ended; i++ {
		e, err := it.ask(c)
		if err != nil {
			return nil, err
		}
		e.Release()
	}
	it.drop(min(it.of.shift, int64(len(it.buffer))))
	return stack(c, list)
}

// ask returns the input's next element, nil at its end.
func (it *sliding) ask(c *dataset.Call) (dataset.Element, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	e, err := it.Input.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		return nil, nil
	}
	return e, err
}
