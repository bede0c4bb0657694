// Images feeds a Python trainer from Go producers. The producers decode PNG images, scale them and put them into a queue of the cluster,
// and TensorFlow's own client trains from the queue. It needs Python with TensorFlow.
//
//	go run ./examples/images -python python3
//	go run ./examples/images -worker grpc://…   on a running cluster, for example of troupe up --tasks ps=1,worker=1
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"iter"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"

	"github.com/troupe-run/troupe/examples/glyphs"
	"github.com/troupe-run/troupe/examples/place"
	"github.com/troupe-run/troupe/queues/pipeline"
	"golang.org/x/sync/errgroup"
)

const fileSide, side = 84, 28

// Example is an element of the queue. In Python, it is [tf.float32, tf.int64] with the shapes [[28, 28], []].
type Example struct {
	Image [side][side]float32
	Label int64
}

// file returns the content of an image file, as a program would read it from disk.
func file(random *rand.Rand) (content []byte, label int64, err error) {
	label = random.Int64N(10)
	var b bytes.Buffer
	err = png.Encode(&b, glyphs.Draw(random, int(label), fileSide))
	return b.Bytes(), label, err
}

// prepare decodes an image file and scales it: each pixel is the mean of 3 by 3 original ones.
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

// trainer is the program that Python runs.
//
//go:embed train.py
var trainer string

func run(ctx context.Context, out io.Writer, target, python string, images int) (err error) {
	workers, stop, err := place.Workers(ctx, target, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(ctx)) }()
	session, err := workers[0].NewSession(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	// Each run has its own queue, so that data of other runs, concurrent or killed, does not enter its training.
	name := fmt.Sprintf("examples-%016x", rand.Uint64())
	queue, err := pipeline.Declare[Example](pipeline.Queue{Name: name, Device: "/job:ps/task:0", Capacity: 1024})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Delete(context.WithoutCancel(ctx), session)) }()
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
		return last.Close(ctx) // no more elements: training ends when the queue is empty
	})
	group.Go(func() error {
		train := exec.CommandContext(ctx, python, "-", workers[0].Target, name)
		train.Stdin = strings.NewReader(trainer)
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

// needTensorFlow returns a one-line error, with the remedy, if the trainer cannot run.
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
	target := flag.String("worker", "", "target of a cluster's worker; if empty, start a cluster in this process")
	python := flag.String("python", "python3", "Python interpreter with TensorFlow")
	images := flag.Int("images", 20_000, "number of images")
	flag.Parse()
	ctx := context.Background()
	if err := needTensorFlow(ctx, *python); err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, *target, *python, *images); err != nil {
		log.Fatal(err)
	}
}
