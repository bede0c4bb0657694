package random

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// learnedClasses have probabilities proportional to the number of times that they occurred. Each starts with a count of one.
type learnedClasses struct {
	max    int64
	leaves int
	// weights is a binary tree. Node 1 is the root. Node i has the children 2i and 2i+1, and their total weight.
	weights []int32
	memory  kernels.Meter
}

func newLearnedClasses(_ *kernels.Construction, max int64) (classes, error) {
	if max >= math.MaxInt32 {
		return nil, status.InvalidArgumentf("range_max must be less than %d, got %d", math.MaxInt32, max)
	}
	leaves := 1
	for int64(leaves) < max {
		leaves *= 2
	}
	return &learnedClasses{max: max, leaves: leaves}, nil
}

func (c *learnedClasses) prepare(ctx *kernels.Context) (err error) {
	if c.weights != nil {
		return nil
	}
	c.memory = ctx.Meter()
	weights, err := kernels.Scratch[int32](&c.memory, 2*c.leaves)
	if err != nil {
		c.memory.Done()
		return err
	}
	for i := range weights[c.leaves:][:c.max] {
		weights[c.leaves+i] = 1
	}
	for i := c.leaves - 1; i > 0; i-- {
		weights[i] = weights[2*i] + weights[2*i+1]
	}
	c.weights = weights
	return nil
}

func (c *learnedClasses) close()          { c.memory.Done() }
func (c *learnedClasses) distinct() int64 { return c.max }

func (c *learnedClasses) sample(x *philox.Numbers32) int64 {
	position := int32(x.Below32(uint32(c.weights[1])))
	node := 1
	for node < c.leaves {
		node *= 2
		if left := c.weights[node]; position >= left {
			position -= left
			node++
		}
	}
	return int64(node - c.leaves)
}

func (c *learnedClasses) probability(class int64) float32 {
	return float32(c.weights[c.leaves+int(class)]) / float32(c.weights[1])
}

// learn counts classes, as long as the total weight does not overflow.
func (c *learnedClasses) learn(seen []int64) {
	for _, class := range seen[:min(len(seen), math.MaxInt32-int(c.weights[1]))] {
		for node := c.leaves + int(class); node > 0; node /= 2 {
			c.weights[node]++
		}
	}
}

// weightedClasses have weights from a list or a file.
type weightedClasses struct {
	max           int64
	path          string
	unigrams      []float32
	distortion    float32
	reserved      int64 // the number of leading classes, whose weight is 0
	shards, shard int64

	found   int64 // the number of classes that have a weight
	weights []float32
	total   float32
	choices []aliased
	likely  int64
	memory  kernels.Meter
}

// aliased is a class in Vose's alias method: the probability of keeping it, and the class that otherwise replaces it.
type aliased struct {
	keep  float32
	other int32
}

func newWeightedClasses(c *kernels.Construction, max int64) (classes, error) {
	a := c.Attrs().Reader()
	path, unigrams, distortion := a.Str("vocab_file"), a.FloatList("unigrams"), a.Float("distortion")
	reserved, shards, shard := a.Int("num_reserved_ids"), a.Int("num_shards"), a.Int("shard")
	if err := a.Err(); err != nil {
		return nil, err
	}
	switch {
	case path == "" && len(unigrams) == 0:
		return nil, status.InvalidArgumentf("Must provide either vocab_file or unigrams.")
	case path != "" && len(unigrams) > 0:
		return nil, status.InvalidArgumentf("Must only provide one of vocab_file and unigrams.")
	case shards < 1:
		return nil, status.InvalidArgumentf("num_shards must be at least 1, got %d", shards)
	}
	return &weightedClasses{max: max, path: path, unigrams: unigrams, distortion: distortion, reserved: reserved, shards: shards, shard: shard}, nil
}

func (c *weightedClasses) close()          { c.memory.Done() }
func (c *weightedClasses) distinct() int64 { return c.likely }
func (c *weightedClasses) learn([]int64)   {}

func (c *weightedClasses) probability(class int64) float32 { return c.weights[class] / c.total }

func (c *weightedClasses) sample(x *philox.Numbers32) int64 {
	r := philox.UnitFloat(x.Next())
	class := x.Below32(uint32(len(c.choices)))
	if choice := c.choices[class]; r >= choice.keep {
		return int64(choice.other)
	}
	return int64(class)
}

// prepare reads the weights.
func (c *weightedClasses) prepare(ctx *kernels.Context) error {
	if c.choices != nil {
		return nil
	}
	c.memory = ctx.Meter()
	err := c.read(ctx)
	if err == nil && c.found != c.max {
		err = status.InvalidArgumentf("range is %d must be equal to weights size  %d", c.max, c.found)
	}
	if err == nil {
		err = c.choose()
	}
	if err != nil {
		c.memory.Done()
		c.weights, c.total, c.choices, c.found, c.likely = nil, 0, nil, 0, 0
	}
	return err
}

// add adds the weight of the shard's next class. Beyond the range, it only counts the class.
func (c *weightedClasses) add(weight float32) error {
	c.found++
	if c.found > c.max {
		return nil
	}
	if len(c.weights) == cap(c.weights) {
		// Lists double as they grow. The charge covers the old list and the new one.
		if err := c.memory.TakeMany(cap(c.weights)+1, 3*4); err != nil {
			return err
		}
	}
	c.weights = append(c.weights, weight)
	c.total += weight
	return nil
}

// reserve assigns the weight 0 to the reserved classes.
func (c *weightedClasses) reserve() (err error) {
	if c.reserved > c.shard && c.shard < c.shards {
		c.found = (c.reserved - c.shard + c.shards - 1) / c.shards
	}
	if c.found <= c.max {
		c.weights, err = kernels.Scratch[float32](&c.memory, int(c.found))
	}
	return err
}

func (c *weightedClasses) read(ctx *kernels.Context) error {
	if err := c.reserve(); err != nil {
		return err
	}
	number := c.found // the index of the class among those of all shards
	mine := func() bool {
		number++
		return (number-1)%c.shards == c.shard
	}
	weigh := func(weight float32) error { return c.add(float32(powers.Of(float64(weight), float64(c.distortion)))) }
	for _, weight := range c.unigrams {
		if !mine() {
			continue
		}
		if err := weigh(weight); err != nil {
			return err
		}
	}
	if c.path == "" {
		return nil
	}
	return c.readFile(ctx, func(line string) error {
		if !mine() {
			return nil
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:]), 32)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return status.InvalidArgumentf("Wrong vocabulary format at line: %s", line)
		}
		return weigh(float32(weight))
	})
}

// readFile calls each for every line of the file that is not empty.
func (c *weightedClasses) readFile(ctx *kernels.Context, each func(line string) error) error {
	f, err := files.Open(ctx.Files(), c.path)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading only
	in := bufio.NewReader(f)
	for {
		line, err := files.ReadLine(in, c.path)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if text := strings.TrimRight(string(line), "\r\n"); text != "" {
			if err := each(text); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		if err := ctx.Ended(); err != nil {
			return err
		}
	}
}

// choose builds the table of the alias method. The order of its steps determines which class a random number selects.
func (c *weightedClasses) choose() error {
	n := len(c.weights)
	chances, err := kernels.Scratch[float64](&c.memory, n)
	if err != nil {
		return err
	}
	if c.choices, err = kernels.Scratch[aliased](&c.memory, n); err != nil {
		return err
	}
	lists, err := kernels.Scratch[int32](&c.memory, 2*n)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, w := range c.weights {
		sum += float64(w)
	}
	low, high := lists[:0:n], lists[n:n:2*n]
	for i, w := range c.weights {
		chances[i] = float64(w*float32(n)) / sum
		if chances[i] > 0 || sum == 0 {
			c.likely++
		}
		if chances[i] < 1 {
			low = append(low, int32(i))
		} else {
			high = append(high, int32(i))
		}
	}
	for len(high) > 0 && len(low) > 0 {
		l, h := low[len(low)-1], high[len(high)-1]
		low, high = low[:len(low)-1], high[:len(high)-1]
		c.choices[l] = aliased{float32(chances[l]), h}
		chances[h] -= 1 - chances[l]
		if chances[h] < 1 {
			low = append(low, h)
		} else {
			high = append(high, h)
		}
	}
	for _, rest := range [][]int32{low, high} {
		for _, i := range rest {
			c.choices[i] = aliased{1, i}
		}
	}
	c.memory.Give(n * (8 + 8)) // the chances and the lists
	return nil
}
