package gpu

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// share is what the devices of this process on one card have in common: the driver's context. When it breaks, all of
// them have to let it go before one resets it.
type share struct {
	lives  map[*life]bool // those that use the context
	leaves []*life        // those that have found it broken, and wait for the others
	left   chan struct{}  // closed when they have been closed
}

// shares are those of all cards in use, and guard what is in them.
var shares struct {
	sync.Mutex
	of map[Card]*share
}

// enter opens a card's context for a life.
func enter(card Card, l *life) (err error) {
	shares.Lock()
	defer shares.Unlock()
	if l.context, err = card.Open(); err != nil {
		return err
	}
	s := shares.of[card]
	if s != nil && len(s.leaves) > 0 {
		return errors.Join(status.Errorf(status.Unavailable, "the card is being reset"), l.context.Close(false))
	}
	if s == nil {
		if shares.of == nil {
			shares.of = map[Card]*share{}
		}
		s = &share{lives: map[*life]bool{}, left: make(chan struct{})}
		shares.of[card] = s
	}
	s.lives[l] = true
	l.share = s
	return nil
}

// leave closes the context of a life that ends well.
func (l *life) leave() error {
	shares.Lock()
	defer shares.Unlock()
	err := l.context.Close(false)
	l.share.without(l)
	return err
}

// without has the others that share a context go on without l.
func (s *share) without(l *life) {
	delete(s.lives, l)
	if len(s.lives) == 0 && len(s.leaves) > 0 {
		s.finish()
	}
	if card := l.device.opts.Card; len(s.lives) == 0 && shares.of[card] == s {
		delete(shares.of, card)
	}
}

// abandon closes the context of a life that was lost, with a reset: once all that share it have been told and have
// abandoned it, too. It waits for that, for patience; then it has to be called again.
func (l *life) abandon() error {
	s := l.share
	shares.Lock()
	if s.lives[l] {
		s.leaves = append(s.leaves, l)
		for other := range s.lives {
			if other != l {
				go other.lose(fmt.Errorf("another device on its card was lost: %w", l.over()))
			}
		}
		s.without(l)
	}
	shares.Unlock()
	timer := time.NewTimer(l.device.opts.grace)
	defer timer.Stop()
	select {
	case <-s.left:
		l.buried = true
		return l.closing
	case <-timer.C:
		return status.Errorf(status.Unavailable, "another device on its card has not let it go yet")
	}
}

// finish closes the contexts of those that have abandoned theirs, the last one with a reset. What enters later is a
// share of its own.
func (s *share) finish() {
	for i, l := range s.leaves {
		l.closing = errors.Join(l.context.Bind(), l.context.Close(i == len(s.leaves)-1))
	}
	s.leaves = nil
	close(s.left)
}
