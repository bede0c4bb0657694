package jpeg

// decodeScans decodes a file of several scans, and then paints the picture.
func (d *decoder) decodeScans() error {
	for more := true; more; {
		if d.scans > maxScans {
			return ErrInvalid
		}
		if err := d.begin(); err != nil {
			return err
		}
		unit, err := d.unitOf()
		if err != nil {
			return err
		}
		if err := d.eachUnit(unit); err != nil {
			return ErrInvalid // TensorFlow makes no picture unless it has all scans
		}
		d.finish()
		if more, err = d.segments(); err != nil {
			return ErrInvalid
		}
	}
	_, unitsHigh := d.units()
	for y := range unitsHigh {
		if d.visible(y) {
			d.transformRow(y)
		}
		d.emit(y, y+1 == unitsHigh)
	}
	return nil
}

// transformRow computes the samples of a row of units.
func (d *decoder) transformRow(y int) {
	for i := range d.planes[:d.Components] {
		p := &d.planes[i]
		if !p.needed {
			continue
		}
		for row := y * p.down; row < (y+1)*p.down; row++ {
			for column := range p.wide {
				p.queue[p.queued] = p.blocks[row*p.blocksInRow+column]
				p.put(63, column, row)
			}
		}
		p.flush()
	}
}

// unitOf returns the function that decodes a block of the current scan.
func (d *decoder) unitOf() (func(p *plane, block *[64]int16), error) {
	s := &d.scan
	if !d.progressive {
		return d.wholeBlock, nil
	}
	ofMeans := s.first == 0
	switch {
	case ofMeans && s.last != 0,
		!ofMeans && (s.first > s.last || s.last > 63 || len(s.components) != 1),
		s.high != 0 && s.low != s.high-1,
		s.low > 13:
		return nil, ErrInvalid
	case ofMeans && s.high == 0:
		return d.firstMean, nil
	case ofMeans:
		return d.refineMean, nil
	case s.high == 0:
		return d.firstRest, nil
	}
	return d.refineRest, nil
}

// eachUnit calls f for the blocks of a scan that have bits.
func (d *decoder) eachUnit(f func(p *plane, block *[64]int16)) error {
	if len(d.scan.components) == 1 {
		p := &d.planes[d.scan.components[0]]
		for row := range p.high {
			for column := range p.wide {
				if skip, err := d.beforeUnit(); err != nil {
					return err
				} else if skip {
					if d.interval == 0 {
						return nil
					}
					continue
				}
				f(p, &p.blocks[row*p.blocksInRow+column])
				if err := d.afterUnit(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	unitsWide, unitsHigh := d.units()
	for y := range unitsHigh {
		for x := range unitsWide {
			if skip, err := d.beforeUnit(); err != nil {
				return err
			} else if skip {
				if d.interval == 0 {
					return nil
				}
				continue
			}
			for _, c := range d.scan.components {
				p := &d.planes[c]
				for i := range p.down * p.across {
					row, column := y*p.down+i/p.across, x*p.across+i%p.across
					f(p, &p.blocks[row*p.blocksInRow+column])
				}
			}
			if err := d.afterUnit(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wholeBlock decodes a block of a sequential scan.
func (d *decoder) wholeBlock(p *plane, block *[64]int16) {
	difference, _ := d.bits.block(p.meansTable, p.rest, block)
	p.before += difference
	block[0] = int16(p.before)
}

func (d *decoder) firstMean(p *plane, block *[64]int16) {
	p.before += d.bits.number(p.meansTable)
	block[0] = int16(p.before << d.scan.low)
}

func (d *decoder) refineMean(_ *plane, block *[64]int16) {
	if d.bits.bit() {
		block[0] |= 1 << d.scan.low
	}
}

// blocksInRun reads the length of a run of blocks without further coefficients: a power of two, plus the number in the next power bits.
func (d *decoder) blocksInRun(power int) int { return 1<<power + int(d.bits.receive(power)) }

// zeros is the symbol for sixteen zeros.
const zeros = 0xf0

func (d *decoder) firstRest(p *plane, block *[64]int16) {
	if d.run > 0 {
		d.run--
		return
	}
	for k := d.scan.first; k <= d.scan.last; k++ {
		symbol := d.bits.symbol(p.rest)
		skip, size := int(symbol>>4), int(symbol&15)
		switch {
		case size > 0:
			k += skip
			block[natural[k&127]] = int16(extend(d.bits.receive(size), size) << d.scan.low)
		case symbol == zeros:
			k += 15
		default:
			d.run = d.blocksInRun(skip) - 1
			return
		}
	}
}

func (d *decoder) refineRest(p *plane, block *[64]int16) {
	k := d.scan.first
	if d.run == 0 {
		for ; k <= d.scan.last; k++ {
			symbol := d.bits.symbol(p.rest)
			skip, size := int(symbol>>4), int(symbol&15)
			var v int16
			if size > 0 {
				if v = -1 << d.scan.low; d.bits.bit() {
					v = 1 << d.scan.low
				}
			} else if symbol != zeros {
				d.run = d.blocksInRun(skip)
				break
			}
			if k = d.correct(block, k, skip); v != 0 {
				block[natural[k]] = v
			}
		}
	}
	if d.run > 0 {
		d.correct(block, k, 64)
		d.run--
	}
}

// correct reads a bit for each coefficient from frequency k on that is not zero. It stops at the zero that follows skip zeros, or after the
// scan's last frequency, and returns the frequency at which it stopped.
func (d *decoder) correct(block *[64]int16, k, skip int) int {
	bit := int16(1) << d.scan.low
	for ; k <= d.scan.last; k++ {
		c := &block[natural[k]]
		if *c == 0 {
			if skip--; skip < 0 {
				break
			}
			continue
		}
		if !d.bits.bit() || *c&bit != 0 {
			continue
		}
		if *c > 0 {
			*c += bit
		} else {
			*c -= bit
		}
	}
	return k
}
