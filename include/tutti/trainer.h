/*
 * The trainer's layer: data-parallel training on top of tutti.h, in libtutti-trainer.
 *
 *   trainer/reducer.h      gradients: register once, mark ready, wait once
 *   trainer/compression.h  fewer bytes per gradient, with error feedback; Adasum
 *   trainer/optimizer.h    optimizers that own the step; sharded optimizer state (ZeRO-1)
 *   trainer/local_sgd.h    steps without communication: local SGD, DiLoCo
 *   trainer/server.h       parameter servers
 *   trainer/state.h        broadcast of state, checkpoints
 *   trainer/elastic.h      jobs that go on when ranks die, or hosts come and go
 *   trainer/data.h         which rank reads which sample
 *   trainer/layers.h       batch normalization over ranks, sparse gradients
 *   trainer/loop.h         a training loop with callbacks, metrics, checkpoints
 *
 * Shape of use
 *
 *     tutti_init(&t, NULL);
 *     tutti_reducer_create(t, params, n, NULL, &reducer);
 *     tutti_optimizer_create(reducer, &settings, &optimizer);
 *     each step:
 *         tutti_reducer_ready(reducer, i);         when the backward pass has gradient i
 *         tutti_optimizer_step(optimizer, NULL);   waits, updates
 *     tutti_optimizer_destroy(optimizer);
 *     tutti_reducer_destroy(reducer);
 *     tutti_finalize(t);
 *
 * Conventions are those of tutti.h: statuses, tutti_last_error(), counts in elements, the
 * three kinds of failure. Structs of options have their size first and are filled by a
 * function or macro ..._default(). Objects made from a context are destroyed before
 * tutti_finalize().
 */
#ifndef TUTTI_TRAINER_H
#define TUTTI_TRAINER_H

#include <tutti/trainer/compression.h>
#include <tutti/trainer/data.h>
#include <tutti/trainer/elastic.h>
#include <tutti/trainer/events.h>
#include <tutti/trainer/layers.h>
#include <tutti/trainer/local_sgd.h>
#include <tutti/trainer/loop.h>
#include <tutti/trainer/optimizer.h>
#include <tutti/trainer/reducer.h>
#include <tutti/trainer/server.h>
#include <tutti/trainer/state.h>
#include <tutti/tutti.h>

#endif
