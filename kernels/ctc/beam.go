package ctc

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// beamKernel is CTCBeamSearchDecoder. It searches for the most likely sequences of labels, and keeps width prefixes at each step.
type beamKernel[T element.Floating] struct {
	width, paths int
	merge        bool
}

func newBeamSearch[T element.Floating](c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	width, paths, merge := a.Int("beam_width"), a.Int("top_paths"), a.Bool("merge_repeated")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if width < 1 || paths < 1 {
		return nil, status.InvalidArgumentf("beam_width and top_paths must be >= 1, got %d and %d", width, paths)
	}
	return &beamKernel[T]{int(width), int(paths), merge}, nil
}

func (k *beamKernel[T]) Compute(ctx *kernels.Context) error {
	d, scores, err := newDecoding[T](ctx, k.paths)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	labels, err := kernels.Scratch[[][]int32](&m, d.batch)
	if err != nil {
		return err
	}
	for b := range labels {
		if labels[b], err = k.search(ctx, &m, d, b, scores[b*k.paths:]); err != nil {
			return err
		}
	}
	return store(ctx, labels, k.paths)
}

// search finds the best paths of a sequence and their scores.
func (k *beamKernel[T]) search(ctx *kernels.Context, kept *kernels.Meter, d *decoding[T], b int, scores []T) ([][]int32, error) {
	m := ctx.Meter()
	defer m.Done()
	s := newBeam[T](k.width, &m, ctx.Step.Cancellation)
	for t := range int(max(0, d.lengths[b])) {
		if err := s.step(d.at(b, t)); err != nil {
			return nil, err
		}
	}
	if k.paths > k.width {
		return nil, status.InvalidArgumentf("requested more paths than the beam width.")
	}
	if k.paths > len(s.leaves) {
		return nil, status.InvalidArgumentf("Less leaves in the beam search than requested.")
	}
	labels := make([][]int32, k.paths)
	for p, e := range s.leaves[:k.paths] {
		labels[p] = e.spelled(k.merge)
		scores[p] = e.now.total
		if err := kept.TakeMany(len(labels[p])+12, 4); err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// chance holds log probabilities of a prefix: of its alignments that end in a blank, of those that end in a label, and of all.
type chance[T element.Floating] struct{ total, blank, label T }

func never[T element.Floating]() chance[T] {
	none := T(logZero)
	return chance[T]{none, none, none}
}

// prefix is a sequence of labels that the search has reached.
type prefix[T element.Floating] struct {
	parent      *prefix[T] // nil for the empty prefix
	label       int32
	children    map[int32]*prefix[T]
	before, now chance[T]
}

// active reports whether the prefix is among the leaves.
func (p *prefix[T]) active() bool { return !math.IsInf(float64(p.now.total), -1) }

// spelled returns the prefix's labels. If merge is set, repeated adjacent labels count once.
func (p *prefix[T]) spelled(merge bool) (labels []int32) {
	last := int32(-1)
	for ; p.parent != nil; p = p.parent {
		if !merge || p.label != last {
			labels = append(labels, p.label)
		}
		last = p.label
	}
	slices.Reverse(labels)
	return labels
}

// beam is the state of a search.
type beam[T element.Floating] struct {
	width  int
	leaves []*prefix[T] // the most likely first; among equals, the oldest first
	m      *kernels.Meter
	ended  *kernels.Cancellation
}

func newBeam[T element.Floating](width int, m *kernels.Meter, ended *kernels.Cancellation) *beam[T] {
	root := &prefix[T]{label: -1, before: never[T](), now: chance[T]{blank: 0, label: T(logZero)}}
	return &beam[T]{width: width, leaves: []*prefix[T]{root}, m: m, ended: ended}
}

// prefixSize is the approximate memory that a prefix takes, including its entry in its parent.
const prefixSize = 160

// push adds a leaf. It returns the leaf that this displaces, which is p itself if no leaf is less likely. It takes time linear in the
// number of leaves.
func (s *beam[T]) push(p *prefix[T]) (*prefix[T], error) {
	if err := s.ended.Err(); err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearchFunc(s.leaves, p.now.total, func(have *prefix[T], total T) int {
		if have.now.total >= total {
			return -1
		}
		return 1
	})
	if len(s.leaves) < s.width {
		s.leaves = slices.Insert(s.leaves, at, p)
		return nil, nil
	}
	if at == len(s.leaves) {
		return p, nil
	}
	last := s.leaves[len(s.leaves)-1]
	copy(s.leaves[at+1:], s.leaves[at:])
	s.leaves[at] = p
	return last, nil
}

// candidate reports whether a leaf with the given probability would be kept.
func (s *beam[T]) candidate(total T) bool {
	return total > T(logZero) && (len(s.leaves) < s.width || total > s.leaves[len(s.leaves)-1].now.total)
}

// step advances the search by the logits of one step.
func (s *beam[T]) step(logits []T) error {
	offset := logOfSum(logits)
	branches := slices.Clone(s.leaves)
	s.leaves = s.leaves[:0]
	for _, p := range branches {
		p.before = p.now
	}
	for _, p := range branches {
		p.stay(logits, offset)
		if _, err := s.push(p); err != nil {
			return err
		}
	}
	for _, p := range branches {
		if !s.candidate(p.before.total) {
			continue
		}
		for label, logit := range logits[:len(logits)-1] {
			if err := s.extend(p, int32(label), logit-offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// stay updates the prefix's probability after a step that outputs a blank or repeats its last label.
func (p *prefix[T]) stay(logits []T, offset T) {
	if p.parent != nil {
		if p.parent.active() {
			p.now.label = logAdd(p.now.label, p.parent.leading(p.label))
		}
		p.now.label += logits[p.label] - offset
	}
	p.now.blank = p.before.total + logits[len(logits)-1] - offset
	p.now.total = logAdd(p.now.blank, p.now.label)
}

// leading returns the probability, before the step, of the alignments that label can follow. A label can follow itself only after a blank.
func (p *prefix[T]) leading(label int32) T {
	if p.label == label {
		return p.before.blank
	}
	return p.before.total
}

// extend adds the prefix with one more label to the leaves, unless that is already a leaf or too unlikely.
func (s *beam[T]) extend(p *prefix[T], label int32, logit T) error {
	child := p.children[label]
	if child != nil && child.active() {
		return nil
	}
	total := logit + p.leading(label)
	if !s.candidate(total) {
		if child != nil {
			child.before, child.now = never[T](), never[T]()
		}
		return nil
	}
	if child == nil {
		if err := s.m.Take(prefixSize); err != nil {
			return err
		}
		child = &prefix[T]{parent: p, label: label, before: never[T]()}
		if p.children == nil {
			p.children = map[int32]*prefix[T]{}
		}
		p.children[label] = child
	}
	child.now = chance[T]{total: total, blank: T(logZero), label: total}
	dropped, err := s.push(child)
	if dropped != nil {
		dropped.now = never[T]()
	}
	return err
}

// logOfSum returns the logarithm of the sum of the exponentials.
func logOfSum[T element.Floating](logits []T) T {
	most := logits[0]
	for _, v := range logits[1:] {
		most = max(most, v)
	}
	var sum T
	for _, v := range logits {
		sum += exp(v - most)
	}
	return most + log(sum)
}
