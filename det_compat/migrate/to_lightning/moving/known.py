"""What is known of functions that are not in the project: what they change, and whether they draw.

What is in none of these lists may do anything to what it gets.
"""

import sys

from det_compat.analysis.expressions import words

#: Python's own that change nothing that they are given, and draw nothing.
BUILTINS = words(
    """
    abs all any bool bytes callable chr complex dict divmod enumerate filter float format frozenset
    getattr hasattr hash id int isinstance issubclass len list map max min object ord pow print
    range repr reversed round set slice sorted str sum tuple type zip
    """
)
#: Of these nothing is left in what they return.
NUMBERS = words("abs bool float hasattr hash id int isinstance issubclass len repr round str")
#: These return a container of its own, which holds what they are given.
CONTAINERS = words(
    "dict enumerate filter frozenset list map reversed set sorted tuple zip chain deque defaultdict"
)
#: What can be gone through only once.
ITERATORS = words(
    """
    iter filter map zip enumerate reversed chain from_iterable parameters named_parameters children
    named_children modules named_modules buffers named_buffers cycle islice
    """
)
#: Methods of Determined's context, under names that no other object has.
_OF_CONTEXTS = words(
    """
    wrap_model wrap_optimizer wrap_lr_scheduler get_hparam get_hparams get_data_config to_device
    get_experiment_config get_global_batch_size get_per_slot_batch_size get_rank get_size
    """
)
#: Methods that change nothing of what they are called on, and draw nothing.
READING = _OF_CONTEXTS | words(
    """
    buffers children count critical debug endswith error format from_iterable get get_last_lr index
    info isdigit item items join keys log lower lstrip modules named_buffers named_children
    named_modules named_parameters numel parameters replace rpartition partition rsplit rstrip size
    split startswith state_dict strip tolist upper values warning copy exists is_file is_dir
    """
)
#: These return a container, or an iterator, of its own.
OF_CONTAINERS = READING - words("get")
#: What changes a list, a dict or the like, but nothing that is in it.
CHANGING = words(
    """
    add append appendleft clear discard extend insert pop popleft popitem remove setdefault sort
    update reverse
    """
)
#: What leaves a module the same object, with the same parameters: their values, places and modes
#: are others.
FILLING = words("bfloat16 cpu cuda double eval float half load_state_dict to train zero_grad")
#: The packages that know nothing of the project but what they are given.
LIBRARIES = {*sys.stdlib_module_names} - words("builtins gc inspect importlib sys") | words(
    """
    torch torchvision torchaudio torchtext torchmetrics torch_optimizer numpy scipy sklearn pandas
    PIL cv2 skimage matplotlib transformers datasets tokenizers timm tqdm yaml attrdict omegaconf
    albumentations efficientnet_pytorch segmentation_models_pytorch pytorch_lightning lightning
    adabelief_pytorch warmup_scheduler pytorch_warmup lion_pytorch torch_geometric dgl einops
    easydict addict nltk boto3 requests h5py tensorboardX gym wandb filelock pycocotools
    determined pedl
    """
)
#: Those of them whose functions draw nothing, and change nothing that they are given.
QUIET = ("math.", "copy.", "functools.partial", "itertools.chain", "os.path.", "typing.")
#: Those that change nothing that they are given, but may draw, or say things to all of torch.
HARMLESS = (
    *QUIET,
    *words(
        """
        torch.backends. torch.cuda. torch.device torch.distributed. torch.nn.functional.
        torch.random. torch.utils.data. torchvision. torchmetrics. numpy. sklearn. os. logging.
        json. yaml. random. time. datetime. pathlib. collections. re. warnings. pickle. shutil.
        tempfile. datasets. tqdm. determined. pedl.
        """
    ),
)
#: What changes what it gets, in libraries that do not do that otherwise.
MUTATING = words("shuffle put place copyto fill_diagonal heappush heappop insort setitem")
#: What makes optimizers and schedulers in them: their classes, and functions with these words.
OPTIMIZERS = words(
    """
    torch.optim torch_optimizer transformers timm.optim timm.scheduler apex adabelief_pytorch
    warmup_scheduler pytorch_warmup lion_pytorch
    """
)
#: What keeps something of its parameters' values when it is made, or looks at them.
COPYING = words("Adagrad AveragedModel")
#: What of a module that gives its parameters tells more than which they are.
LOOKS = words(
    """
    requires_grad is_leaf data grad shape ndim dim size dtype device is_cuda training named_modules
    modules state_dict named_buffers buffers numel children named_children isinstance hasattr
    """
)
#: What stands for all that an object has.
WHOLE = words("__dict__ __class__")
#: The decorators that leave a function as it is, but for how it is asked for.
DECORATORS = words(
    "property staticmethod classmethod abstractmethod abc.abstractmethod override torch.no_grad()"
)
