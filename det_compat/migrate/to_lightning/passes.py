"""The passes over one file of ``--to lightning``: what each needs, takes and leaves, in order.

Each pass replaces one kind of what is Determined's in the tree. They share nothing but the tree,
what was decided before the first one (``LightningFile``, which none changes), and the edits of
imports, which are made after the last one.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.to_lightning import callbacks, trial_class
from det_compat.migrate.to_lightning.automatic.fit_alone import with_steps_in_fit
from det_compat.migrate.to_lightning.context import attributes, members, names
from det_compat.migrate.to_lightning.data import loaders
from det_compat.migrate.to_lightning.data.shared_out import with_word_of_ranks
from det_compat.migrate.to_lightning.data.sized import with_word_of_lengths
from det_compat.migrate.to_lightning.data.start_methods import said_again
from det_compat.migrate.to_lightning.data.started import with_data_in_setup
from det_compat.migrate.to_lightning.early import late_models
from det_compat.migrate.to_lightning.early.secrets import without_secrets
from det_compat.migrate.to_lightning.metrics import told
from det_compat.migrate.to_lightning.optimization import (
    optimizer_wrappers,
    schedulers,
    stepping,
    unwrapping,
)
from det_compat.migrate.to_lightning.optimization.unused import with_word_of_thawing
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.reducers.metrics import rewrite_reducers
from det_compat.migrate.to_lightning.reducers.uneven import with_uneven_batches
from det_compat.migrate.to_lightning.resumed import with_word_of_schedulers
from det_compat.migrate.to_lightning.script_contexts import core
from det_compat.migrate.to_lightning.scripts import training
from det_compat.migrate.to_lightning.taken import renaming
from det_compat.migrate.to_lightning.whole.hooks import as_hooks
from det_compat.migrate.to_lightning.written_out import (
    clipping,
    event_files,
    handed,
    horovod,
    lengths,
    plain_batches,
    samplers,
)
from det_compat.migrate.tree import docstrings, leftovers, syntax
from det_compat.migrate.tree.marks import without_old_code, without_platform
from det_compat.migrate.tree.transformers import with_quotes


class Holds(enum.Flag):
    """What a tree holds that passes look for."""

    NONE = 0
    #: calls of ``to_lightning(Trial)(...)`` and ``alias_determined()``
    ADAPTERS = enum.auto()
    #: placeholders of ``get_cluster_info``, and what asks it
    CLUSTER = enum.auto()
    #: placeholders of ``pytorch.init``, ``pytorch.Trainer``, ``Batch`` and ``Epoch``
    SCRIPTS = enum.auto()
    #: trial classes whose attributes are all their own, none Lightning's
    OWN_ATTRIBUTES = enum.auto()
    #: trial classes with Determined's methods, such as ``train_batch``
    TRIALS = enum.auto()
    #: calls of ``context.wrap_optimizer`` and the like
    WRAPS = enum.auto()
    #: placeholders of LRScheduler.StepMode and its members
    MODES = enum.auto()
    #: calls of ``context.step_optimizer``
    STEPS = enum.auto()
    #: placeholders of contexts in assignments, such as ``self.context = context``
    ALIASES = enum.auto()
    #: placeholders of what a context is asked for, such as ``context.device``
    MEMBERS = enum.auto()
    #: loader methods with Determined's names
    LOADERS = enum.auto()
    #: placeholders of the samplers that shuffle
    SAMPLERS = enum.auto()
    #: placeholders of callbacks that clip gradients
    CLIPPING = enum.auto()
    #: placeholders of what Horovod is asked
    HOROVOD = enum.auto()
    #: placeholders of ``data_length``
    LENGTHS = enum.auto()
    #: placeholders of TorchWriters
    WRITERS = enum.auto()
    #: placeholders of functions, such as ``reset_parameters``
    FUNCTIONS = enum.auto()
    #: callbacks with Determined's hooks
    HOOKS = enum.auto()
    #: placeholders of classes, in bases, annotations and calls
    TYPES = enum.auto()
    #: MetricReducers with Determined's methods
    REDUCERS = enum.auto()
    #: calls of a class FunctionMetric that is not defined
    FUNCTION_METRICS = enum.auto()


#: What the steps of a module were called before.
STEPS_BEFORE = {
    "training_step": ("train_batch",),
    "validation_step": ("evaluate_full_dataset", "evaluate_batch"),
}
#: What a tree holds before the first pass.
FIRST = ~Holds.FUNCTION_METRICS


@dataclass(frozen=True)
class Pass:
    """A pass over a file.

    Attributes:
        apply: makes the new tree.
        needs: what must still be there as it was.
        takes: what of that is not there any more, or not as it was.
        leaves: what is there then, for a later pass.
    """

    apply: Callable[[cst.Module, LightningFile], cst.Module]
    needs: Holds
    takes: Holds
    leaves: Holds = Holds.NONE


PASSES = (
    # Before any pass writes `self.logger` or `self.trainer` into a trial and means Lightning's.
    Pass(renaming.rename_reserved, needs=Holds.OWN_ATTRIBUTES, takes=Holds.NONE),
    # The pass over trials says what is left of batch samplers.
    Pass(plain_batches.without_plain_batches, needs=Holds.TRIALS, takes=Holds.NONE),
    # No other pass reads or writes what it takes: it may stand anywhere above the last one, which
    # would put the calls back.
    Pass(names.make_modules, needs=Holds.ADAPTERS, takes=Holds.ADAPTERS),
    # It needs the placeholders of the Trainer, by which it knows that a script is one of it.
    Pass(core.run_off_clusters, needs=Holds.CLUSTER | Holds.SCRIPTS, takes=Holds.CLUSTER),
    # It tells the context that a script hands to a trial, which later passes make the module of.
    Pass(training.train_with_lightning, needs=Holds.SCRIPTS | Holds.ALIASES, takes=Holds.SCRIPTS),
    # It has to see the whole trial: what __init__ wraps moves to configure_optimizers, one backward
    # before one step is Lightning's, the context is no parameter any more, and what of it is only
    # known later becomes a property. So all that takes one of these apart comes later.
    Pass(
        trial_class.rewrite_trials,
        needs=Holds.TRIALS
        | Holds.WRAPS
        | Holds.STEPS
        | Holds.ALIASES
        | Holds.MEMBERS
        | Holds.MODES
        | Holds.TYPES,
        takes=Holds.TRIALS | Holds.OWN_ATTRIBUTES,
    ),
    # What is left of steps is outside of trials, or was in methods that it has kept.
    Pass(stepping.write_out_steps, needs=Holds.STEPS, takes=Holds.STEPS),
    # It looks at classes of torch's alone.
    Pass(optimizer_wrappers.give_closures, needs=Holds.NONE, takes=Holds.NONE),
    # It looks at what optimizers are called alone.
    Pass(optimizer_wrappers.set_on_both, needs=Holds.NONE, takes=Holds.NONE),
    # It tells an alias by the context, or the member of one, that is assigned; and a name of a step
    # mode that nothing needs by the calls that wrap schedulers. Both go in the passes below.
    Pass(
        attributes.drop_aliases,
        needs=Holds.ALIASES | Holds.MEMBERS | Holds.WRAPS | Holds.MODES | Holds.TYPES,
        takes=Holds.ALIASES,
    ),
    # The pass above leaves contexts out, which would be modules now.
    Pass(late_models.leave_out_late, needs=Holds.NONE, takes=Holds.NONE),
    # The passes above tell step modes by their placeholders.
    Pass(schedulers.write_step_modes, needs=Holds.MODES, takes=Holds.MODES),
    # It leaves what was wrapped, so the passes that know optimizers and schedulers by their
    # wrappers are above; it calls a class that the pass over reducers writes.
    Pass(
        unwrapping.unwrap,
        needs=Holds.WRAPS,
        takes=Holds.WRAPS,
        leaves=Holds.FUNCTION_METRICS,
    ),
    # It knows loaders by the names of their methods, which no other pass reads; the samplers that
    # it takes away must be gone before the last pass.
    Pass(loaders.rename_loaders, needs=Holds.LOADERS, takes=Holds.LOADERS),
    # It writes the function that the pass over loaders has called; the last one would put the
    # samplers back.
    Pass(samplers.write_out_samplers, needs=Holds.SAMPLERS, takes=Holds.SAMPLERS),
    # No other pass reads these names; the last one would put them back.
    Pass(clipping.write_out_clipping, needs=Holds.CLIPPING, takes=Holds.CLIPPING),
    Pass(horovod.write_out_horovod, needs=Holds.HOROVOD, takes=Holds.HOROVOD),
    Pass(lengths.write_out_lengths, needs=Holds.LENGTHS, takes=Holds.LENGTHS),
    # It writes `self.logger`, which the first pass would take for an attribute of the trial.
    Pass(names.use_loggers, needs=Holds.WRITERS, takes=Holds.WRITERS),
    # It asks a context for its path, of which the pass over members would make plain text.
    Pass(event_files.write_to_log_dir, needs=Holds.MEMBERS, takes=Holds.NONE),
    # The methods that it hands on are called nowhere any more, but where a mark says so.
    Pass(handed.write_out_handed, needs=Holds.MEMBERS, takes=Holds.NONE),
    # It makes plain text of members, by which none of the passes above would know them.
    Pass(members.ask_module, needs=Holds.MEMBERS, takes=Holds.MEMBERS),
    # No other pass reads these names; the last one would put them back.
    Pass(names.write_out_functions, needs=Holds.FUNCTIONS, takes=Holds.FUNCTIONS),
    # It knows callbacks by the names in the plan, so it may stand before or after the pass that
    # puts Lightning's class in the place of their base.
    Pass(callbacks.rename_hooks, needs=Holds.HOOKS, takes=Holds.HOOKS),
    # It looks for PyTorchCallback among the bases.
    Pass(told.report_training, needs=Holds.TYPES, takes=Holds.NONE),
    # It writes the class that unwrapping has called, above the one of the pass before.
    Pass(
        rewrite_reducers,
        needs=Holds.REDUCERS | Holds.FUNCTION_METRICS,
        takes=Holds.REDUCERS | Holds.FUNCTION_METRICS,
    ),
    # The passes above tell bases and annotations by their placeholders.
    Pass(names.rename_types, needs=Holds.TYPES, takes=Holds.TYPES),
    # Whatever is a placeholder now has no counterpart.
    Pass(leftovers.put_back, needs=Holds.NONE, takes=~Holds.NONE),
)


def rewritten(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The tree of a file after all passes."""
    before = tree
    for each in PASSES:
        tree = each.apply(tree, file)
    tree = with_steps_in_fit(as_hooks(tree, file), file)
    tree = names.with_word_of_writers(with_quotes(tree), before)
    tree = with_word_of_thawing(tree, file)
    if not file.plans:
        is_new = any("DataLoader" in line for line in file.imports.new)
        return docstrings.of_loaders(tree) if is_new else tree

    def said(node: cst.ClassDef) -> cst.ClassDef:
        plan = file.plans.get(node.name.value)
        if plan is None:
            return node
        node = without_secrets(without_platform(node), plan, file)
        node = with_word_of_schedulers(with_word_of_ranks(node), file.elsewhere.texts)
        node = said_again(node, file.elsewhere.imported)
        node = with_data_in_setup(node, plan, file.elsewhere)
        every = (*file.every, *file.trials.values())
        family = {p.own.name for p in every if plan in p.ancestors or p in plan.ancestors}
        node = with_uneven_batches(node, sorted({plan.own.name, *family}), file.elsewhere.texts)
        return with_word_of_lengths(node, file.elsewhere.texts)

    tree = syntax.each(without_old_code(tree), cst.ClassDef, said)
    return docstrings.following(tree, before, STEPS_BEFORE)
