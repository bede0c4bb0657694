// Images feeds a trainer in Python from producers in Go. They decode PNG images, scale them and put them into a
// queue of the cluster, from which TensorFlow's own client trains. It needs Python with TensorFlow.
//
//	go run ./examples/images -python python3
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"iter"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/internal/glyphs"
	"github.com/troupe-run/troupe/queues/pipeline"
	"golang.org/x/sync/errgroup"
)

const fileSide, side = 84, 28

// Example is what goes through the queue. In Python it is [tf.float32, tf.int64] with the shapes [[28, 28], []].
type Example struct {
	Image [side][side]float32
	Label int64
}

// file makes an image file, as a program would read them from disks.
func file(random *rand.Rand) (content []byte, label int64, err error) {
	label = random.Int64N(10)
	var b bytes.Buffer
	err = png.Encode(&b, glyphs.Draw(random, int(label), fileSide))
	return b.Bytes(), label, err
}

// prepare decodes an image file and scales it: each pixel is the mean of the 3 by 3 that it stands for.
func prepare(content []byte, label int64) (e Example, err error) {
	img, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		return e, err
	}
	e.Label = label
	for y := range fileSide {
		for x := range fileSide {
			r, g, b, _ := img.At(x, y).RGBA()
			e.Image[y/3][x/3] += float32(r+g+b) / (3 * 0xffff * 9)
		}
	}
	return e, nil
}

func examples(n int, seed uint64) iter.Seq2[Example, error] {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(yield func(Example, error) bool) {
		for range n {
			content, label, err := file(random)
			var e Example
			if err == nil {
				e, err = prepare(content, label)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func run(ctx context.Context, out io.Writer, python, trainer string, images int) (err error) {
	cluster, err := troupe.NewLocalCluster(ctx, map[string]int{"ps": 1, "worker": 1}, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(ctx)) }()
	session, err := cluster.Server("ps", 0).NewSession(ctx, nil, nil)
	if err != nil {
		return err
	}
	queue, err := pipeline.Declare[Example](pipeline.Queue{Name: "examples", Device: "/job:ps/task:0", Capacity: 1024})
	if err != nil {
		return err
	}
	last, err := queue.Producer(ctx, session, pipeline.ProducerOptions{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	var producers errgroup.Group
	for i := range uint64(2) {
		producers.Go(func() error {
			producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{KeepOpen: true})
			if err != nil {
				return err
			}
			return producer.Range(ctx, examples(images/2, i))
		})
	}
	group.Go(func() error {
		if err := producers.Wait(); err != nil {
			return last.Fail(context.WithoutCancel(ctx), err)
		}
		return last.Close(ctx) // no more will come: training ends when the queue is empty
	})
	group.Go(func() error {
		train := exec.CommandContext(ctx, python, trainer, cluster.Server("worker", 0).Target())
		train.Stdout, train.Stderr = out, os.Stderr
		train.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=2")
		return train.Run()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(out, "two producers in Go prepared %d images\n", images)
	return nil
}

// needTensorFlow returns an error of one line, with the remedy, if the trainer cannot run.
func needTensorFlow(ctx context.Context, python string) error {
	if err := exec.CommandContext(ctx, python, "-c", "").Run(); err != nil {
		return fmt.Errorf("%s does not run (%w): name a Python interpreter with -python", python, err)
	}
	find := exec.CommandContext(ctx, python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)")
	if err := find.Run(); err != nil {
		return fmt.Errorf("%[1]s has no TensorFlow: run '%[1]s -m pip install tensorflow-cpu==2.21.0', or name another Python with -python", python)
	}
	return nil
}

func main() {
	python := flag.String("python", "python3", "a Python with TensorFlow")
	images := flag.Int("images", 20_000, "how many images there are")
	flag.Parse()
	ctx := context.Background()
	if err := needTensorFlow(ctx, *python); err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, *python, "examples/images/train.py", *images); err != nil {
		log.Fatal(err)
	}
}
